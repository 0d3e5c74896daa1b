# PHP: each instance has a pool of its own, and its memory is on the instance's node.

# The processes of a pool: those named so whose forefather is the instance.
pool_of() { # PID
    for stat in /proc/[0-9]*/stat; do sed 's/^\([0-9]*\) (\(.*\)) . \([0-9]*\) .*/\1 \3 \2/' "$stat" 2> /dev/null; done |
        awk -v root="$1" '{ parent[$1] = $2; name[$1] = $3 } END { for (pid in name) if (name[pid] ~ /^php-fpm/)
            for (up = pid; up > 1; up = parent[up]) if (up == root) { print pid; break } }'
}

if [ -x /usr/sbin/php-fpm ]; then
    echo '<?php echo strlen(implode(",", range(1, 50000)));' > /srv/work.php
    serve --php=/usr/sbin/php-fpm --php-children 2
    say "ASK 8 5 work.php"
    wait_for 40 120; check "every request to PHP is answered" $? "$(answered) answered, by instance: $(answered_each)"
    for number in 0 1 2 3; do
        pool=$(pool_of "$(pid_of $number)")
        set -- $(pages $number $pool)
        [ "${2:-0}" -gt 0 ] && [ $(($1 * 100)) -ge $(($2 * 95)) ]
        check "the PHP pool of instance $number is on its node" $? \
            "$(echo "$pool" | wc -w) processes, $1 of $2 pages on node $number"
    done
    stop
else
    say "SKIPPED: no php-fpm on the machine outside"
fi
