import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { programOf } from './program.ts'

test.each([
  [undefined, 'espalier'],
  ['bin/espalier', 'bin/espalier'],
  ['./espalier', './espalier'],
  ['/usr/bin/espalier', 'espalier'],
  ['/opt/espalier/bin/espalier', '/opt/espalier/bin/espalier'],
  ['/usr/bin/kubectl-espalier', 'kubectl espalier'],
  ['/home/a b/espalier', "'/home/a b/espalier'"],
  ['/home/$(reboot)/espalier', "'/home/$(reboot)/espalier'"],
  ["/home/it's/espalier", 'espalier'],
  ['/home/\u001b[2J/espalier', 'espalier'],
])('started as %j, it is %s', (started, shown) => expect(programOf(started, '/bin:/usr/bin')).toBe(shown))

/** Fixed names: comments, the prefix of errors, data that the API stores, and scripts for the program on PATH. */
const fixed = /^\s*(\/\/|\*|\/\*)|`espalier \$\{name\}: |'espalier (allow me|sql)'|completion\/scripts\.ts|COMP_WORDS/

test('hints of the client name the program as the user started it', () => {
  const root = join(import.meta.dirname, '../cli')
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    path => /(?<!\.test)\.ts$/.test(path) && path !== 'completion/scripts.ts',
  )
  expect(files.length).toBeGreaterThan(40)
  const found = files.flatMap(path =>
    readFileSync(join(root, path), 'utf8')
      .split('\n')
      .filter(line => /(?<![\w.}/-])espalier [a-z$]/.test(line) && !fixed.test(line))
      .map(line => `${path}: ${line.trim()}`),
  )
  expect(found).toEqual([])
})
