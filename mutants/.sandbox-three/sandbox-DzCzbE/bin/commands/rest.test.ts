// @ts-nocheck
import { expect, test } from 'vitest'
import { UsageError } from '../command.ts'
import rest from './rest.ts'

test.each([
  [['--dump-config'], '--dump-config is not a flag of this command; --help tells more'],
  [['--example', 'rest.conf'], '--example is not a flag of this command; --help tells more'],
  [['one.conf', 'two.conf'], 'one configuration file at most; --help tells more'],
])('%j is refused', async (args, message) => {
  await expect(rest.run(args)).rejects.toThrow(new UsageError(message))
})

test('a file that cannot be read is named', async () => {
  await expect(rest.run(['/nonexistent/rest.conf'])).rejects.toThrow(
    'the configuration file /nonexistent/rest.conf cannot be read (ENOENT)',
  )
})
