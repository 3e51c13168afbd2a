import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { shellQuoted } from './env.ts'

test('a shell reads any quoted value unchanged', () => {
  const values = ["it's", '$(reboot)', 'a b', '`x`', 'new\nline', '\\', '', '!', '"', '*', '~', '-n', 'é']
  const random = fc.sample(fc.string({ minLength: 1 }), 50).filter(text => !text.includes('\0'))
  for (const value of [...values, ...random]) expect(shellQuoted(value)).not.toBe('')
  const all = [...values, ...random]
  const script = all.map(value => `printf '%s\\0' ${shellQuoted(value)}`).join('\n')
  expect(execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' }).split('\0').slice(0, -1)).toEqual(all)
  expect(() => shellQuoted('a\0b')).toThrow('null byte')
})
