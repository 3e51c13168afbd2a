/** Shared parts of the prompts: messages, arguments with limits, and the separation of user text from instructions. */
import type { Outcome } from '../core/call.ts'
import { CoreError } from '../core/errors.ts'
import type { PromptResult } from '../core/prompt.ts'

const longestArgument = 10_000

/** @throws CoreError */
export function boundedArgument(args: { readonly [name: string]: string }, name: string): string {
  const text = (args[name] ?? '').trim()
  if (text === '') throw new CoreError({ kind: 'invalid params', problem: `${name} must not be empty` })
  if (text.length > longestArgument) {
    throw new CoreError({ kind: 'invalid params', problem: `${name} must have at most ${longestArgument} characters` })
  }
  return text
}

/** Returns an argument that must be one of these values. The first value is the default. @throws CoreError */
export function chosenArgument<Value extends string>(
  args: { readonly [name: string]: string },
  name: string,
  values: readonly [Value, ...Value[]],
): Value {
  const text = (args[name] ?? '').trim()
  const found = text === '' ? values[0] : values.find(value => value === text)
  if (found === undefined)
    throw new CoreError({ kind: 'invalid params', problem: `${name} must be one of ${values.join(', ')}` })
  return found
}

/** Quotes a user's text between fences that the text does not contain. */
export function quoted(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}text\n${text}\n${fence}`
}

export const userMessage = (description: string, text: string): Outcome<PromptResult> => ({
  kind: 'result',
  result: { description, messages: [{ role: 'user', content: { type: 'text', text } }] },
})

export const beginningWith = (values: readonly string[], value: string): readonly string[] =>
  values.filter(one => one.startsWith(value.toLowerCase()))
