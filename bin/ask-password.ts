/** Reads a password. At a terminal, prompts for it twice and hides the input; from a pipe, reads the first line. */
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { type HiddenInput, readHidden } from '../server/hidden-input.ts'
import { UsageError } from './command.ts'

const question = { what: 'password', mostCharacters: 4_096 }

async function firstLine(input: Readable): Promise<string> {
  const lines = createInterface({ input, terminal: false })
  for await (const line of lines) return line
  throw new UsageError('no password: use the terminal, standard input or -password')
}

/** @throws UsageError */
export async function askPassword(input: HiddenInput, output: Writable): Promise<string> {
  if (input.isTTY !== true) return await firstLine(input)
  const password = await readHidden(input, output, { ...question, prompt: 'Password: ' })
  if ((await readHidden(input, output, { ...question, prompt: 'Repeat the password: ' })) === password) return password
  throw new UsageError('the two passwords differ')
}
