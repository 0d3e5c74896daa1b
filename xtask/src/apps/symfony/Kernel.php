<?php
// An application on Symfony for the test: a list of paintings in the session.
namespace App;

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\RedirectResponse;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;
use Symfony\Component\Routing\Generator\UrlGeneratorInterface;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

class Kernel extends BaseKernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
    }

    public function getProjectDir(): string
    {
        return dirname(__DIR__);
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $session = ['storage_factory_id' => 'session.storage.factory.native', 'cookie_secure' => 'auto'];
        $container->extension('framework', ['secret' => 'pearl', 'session' => $session]);
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('list', '/')->controller('kernel::list')->methods(['GET']);
        $routes->add('add', '/paintings')->controller('kernel::add')->methods(['POST']);
        $routes->add('painting', '/paintings/{title}')->controller('kernel::painting')->requirements(['title' => '.+']);
    }

    public function list(Request $request): Response
    {
        $lines = '';
        foreach ($request->getSession()->get('titles', []) as $title) {
            $lines .= '<li><a href="' . $this->address($title) . '">' . htmlspecialchars($title) . '</a>';
        }
        $form = '<form method="post" action="/paintings"><input name="title"><button>Add</button></form>';
        return $this->page('Paintings', "<ul>$lines</ul>$form");
    }

    public function add(Request $request): Response
    {
        $session = $request->getSession();
        $title = $request->request->get('title');
        $session->set('titles', [...$session->get('titles', []), $title]);
        return new RedirectResponse($this->address($title));
    }

    public function painting(Request $request, string $title): Response
    {
        $client = ($request->isSecure() ? 'TLS' : 'plain') . ' ' . $request->getClientIp();
        return $this->page(htmlspecialchars($title), "<p>$client</p><a href=\"/\">All</a>");
    }

    private function address(string $title): string
    {
        $router = $this->getContainer()->get('router');
        return $router->generate('painting', ['title' => $title], UrlGeneratorInterface::ABSOLUTE_URL);
    }

    private function page(string $title, string $body): Response
    {
        $head = "<title>$title</title><link rel=\"stylesheet\" href=\"/style.css\">";
        return new Response("<!DOCTYPE html><html><head>$head</head><body><h1>$title</h1>$body</body></html>");
    }
}
