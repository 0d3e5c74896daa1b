# Steering is taken back.

vermeil steer undo > /tmp/undone 2>&1
undone=$?
settings > /tmp/after
cmp -s /tmp/before /tmp/after && [ $undone = 0 ] && ! cmp -s /tmp/before /tmp/steered
check "steer undo restores every setting" $? "$(wc -l < /tmp/before) settings compared"
