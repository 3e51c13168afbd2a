import { execFileSync } from 'node:child_process'
import { parseEnv } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { envLine, type Quoting, shellQuoted } from './env-lines.ts'

test('a shell reads any quoted value unchanged', () => {
  const values = ["it's", '$(reboot)', 'a b', '`x`', 'new\nline', '\\', '', '!', '"', '*', '~', '-n', 'é']
  const random = fc.sample(fc.string({ minLength: 1 }), 50).filter(text => !text.includes('\0'))
  for (const value of [...values, ...random]) expect(shellQuoted(value)).not.toBe('')
  const all = [...values, ...random]
  const script = all.map(value => `printf '%s\\0' ${shellQuoted(value)}`).join('\n')
  expect(execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' }).split('\0').slice(0, -1)).toEqual(all)
  expect(() => shellQuoted('a\0b')).toThrow('null byte')
})

const url = 'postgresql://app:p-_~.%3A@127.0.0.1:15432/app?sslmode=verify-full&sslrootcert=%2Fhome%2Fa%20b%2Fca.pem'
/** Values of a database, and what a user can have in a path. */
const usual = [
  url,
  'aLfakPBKXScHo05txfTPpmxUlF7_gJ2BkmWa1o5RZk',
  '127.0.0.1',
  '/home/ada/.cache/ca-1f.pem',
  'é',
  'a;b|c(d)',
]
/** Only quotes keep them. */
const inQuotes = ['/home/a b/ca.pem', 'a#b', 'a # b', '"', 'p`x`', '$HOME', ' a ']
/** Readers disagree on them. */
const refused = ["it's", 'a\\b', 'new\nline', `\${HOME}`, 'a\0']

/** python-dotenv (parser.py, variables.py): escapes and `${NAME}` count in single quotes; without quotes, ` #` is a comment. */
function pythonDotenv(line: string): string {
  const text = line.slice(line.indexOf('=') + 1)
  const [, quoted] = /^'((?:\\'|[^'])*)'$/.exec(text) ?? []
  const value = quoted?.replace(/\\([\\'])/g, '$1') ?? text.replace(/\s+#.*/, '').trimEnd()
  return value.replace(/\$\{[^}]*\}/g, '')
}
/** The npm package dotenv; Node's parser follows it. */
const dotenv = (line: string) => parseEnv(line).NAME
/** `docker run --env-file`: all text after the `=`. */
const docker = (line: string) => line.slice(line.indexOf('=') + 1)
const sourced = (line: string) =>
  execFileSync('/bin/sh', ['-c', `${line}\nprintf %s "$NAME"`], { encoding: 'utf8', env: {} })

test.each<[Quoting, readonly string[], readonly ((line: string) => string | undefined)[], readonly string[]]>([
  ['file', [...usual, ...inQuotes, ''], [dotenv, pythonDotenv, sourced], refused],
  ['none', [...usual, ''], [dotenv, pythonDotenv, docker], [...refused, ...inQuotes]],
  ['shell', [...usual, ...inQuotes, "it's", `\${HOME}`, 'a\\b', 'new\nline'], [sourced], ['a\0']],
])(
  'all readers of the lines for %s read the same value, and other values are refused',
  (quoting, values, readers, others) => {
    for (const value of values) for (const read of readers) expect(read(envLine('NAME', value, quoting))).toBe(value)
    for (const value of others) expect(() => envLine('NAME', value, quoting)).toThrow(/character|null byte/)
  },
)
