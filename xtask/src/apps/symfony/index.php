<?php
require dirname(__DIR__) . '/vendor/Symfony/Bundle/FrameworkBundle/autoload.php';
require dirname(__DIR__) . '/src/Kernel.php';

$kernel = new App\Kernel($_SERVER['APP_ENV'] ?? 'prod', false);
$request = Symfony\Component\HttpFoundation\Request::createFromGlobals();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
