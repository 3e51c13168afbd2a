/** Tests `espalier sql` before it connects. */
import { expect, test } from 'vitest'
import { runCommand } from '../testing/cli.ts'

function* endless(): Generator<string> {
  for (;;) yield 'x'.repeat(1_048_576)
}

test('statements above the limit are refused before the input ends', async () => {
  expect(await runCommand('sql shop', { piped: endless() })).toEqual({
    code: 2,
    out: '',
    err: 'espalier sql: the statements must have at most 16777216 characters: for longer files, use psql -f\n',
  })
})
