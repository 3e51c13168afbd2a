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
/** Connection values, and characters that occur in file paths. */
const plainValues = [
  url,
  'aLfakPBKXScHo05txfTPpmxUlF7_gJ2BkmWa1o5RZk',
  '127.0.0.1',
  '/home/ada/.cache/ca-1f.pem',
  'é',
  'a;b|c(d)',
]
/** Values that programs change if they are not quoted. */
const inQuotes = ['/home/a b/ca.pem', 'a#b', 'a # b', '"', 'p`x`', '$HOME', ' a ']
/** Values that programs read differently. */
const refused = ["it's", 'a\\b', 'new\nline', `\${HOME}`, 'a\0']

/**
 * Reads a line as python-dotenv does (parser.py, variables.py): in single quotes, it replaces escapes and `${NAME}`.
 * Without quotes, ` #` begins a comment.
 */
function pythonDotenv(line: string): string {
  const text = line.slice(line.indexOf('=') + 1)
  const [, quoted] = /^'((?:\\'|[^'])*)'$/.exec(text) ?? []
  const value = quoted?.replace(/\\([\\'])/g, '$1') ?? text.replace(/\s+#.*/, '').trimEnd()
  return value.replace(/\$\{[^}]*\}/g, '')
}
/** Reads a line as the npm package dotenv does. Node's parser has the same rules. */
const dotenv = (line: string) => parseEnv(line).NAME
/** Reads a line as `docker run --env-file` does: the value is all text after the `=`. */
const docker = (line: string) => line.slice(line.indexOf('=') + 1)
const sourced = (line: string) =>
  execFileSync('/bin/sh', ['-c', `${line}\nprintf %s "$NAME"`], { encoding: 'utf8', env: {} })

test.each<[Quoting, readonly string[], readonly ((line: string) => string | undefined)[], readonly string[]]>([
  ['file', [...plainValues, ...inQuotes, ''], [dotenv, pythonDotenv, sourced], refused],
  ['none', [...plainValues, ''], [dotenv, pythonDotenv, docker], [...refused, ...inQuotes]],
  ['shell', [...plainValues, ...inQuotes, "it's", `\${HOME}`, 'a\\b', 'new\nline'], [sourced], ['a\0']],
])(
  'quoting %s: all programs read the same value, and values that programs would change are refused',
  (quoting, values, readers, others) => {
    for (const value of values) for (const read of readers) expect(read(envLine('NAME', value, quoting))).toBe(value)
    for (const value of others) expect(() => envLine('NAME', value, quoting)).toThrow(/character|null byte/)
  },
)
