import { PassThrough, Readable } from 'node:stream'
import { expect, test } from 'vitest'
import type { HiddenInput } from '../server/hidden-input.ts'
import { askPassword } from './ask-password.ts'

/** Types one text at each prompt, as a terminal sends it. */
async function atTerminal(...typed: string[]) {
  const shown: string[] = []
  const raw: boolean[] = []
  const input: HiddenInput = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => raw.push(isRaw),
  })
  const output = new PassThrough()
  output.on('data', (text: Buffer) => {
    shown.push(text.toString())
    if (/: $/.test(text.toString())) input.push(typed.shift() ?? '')
  })
  const password = await askPassword(input, output).catch(error => error)
  return { password, shown: shown.join(''), raw }
}

test('a terminal is prompted twice and shows no input', async () => {
  const { password, shown, raw } = await atTerminal('sécret\u007f\u007fT x\r', 'sécrT x\r')
  expect(password).toBe('sécrT x')
  expect(shown).toBe('Password: \nRepeat the password: \n')
  expect(raw).toEqual([true, false, true, false])
})

test.each([
  [['one\r', 'two\r'], 'the two passwords differ'],
  [['one\u0003'], 'no password'],
])('the input %j at a terminal is refused', async (typed, message) => {
  const { password, raw } = await atTerminal(...typed)
  expect(password).toHaveProperty('message', message)
  expect(raw.at(-1)).toBe(false)
})

test('from a pipe, the password is the first line', async () => {
  expect(await askPassword(Readable.from(['of a ', 'pipe\nmore\n']), new PassThrough())).toBe('of a pipe')
  expect(await askPassword(Readable.from(['\n']), new PassThrough())).toBe('')
  await expect(askPassword(Readable.from([]), new PassThrough())).rejects.toThrow('no password')
})
