/** Asks for confirmation: `agree` asks yes or no, `confirm` asks the user to type the object's name. */
import { escapeControls, escapeLines } from '../values/escape.ts'
import type { ConfirmOptions } from './arguments.ts'
import { CommandFailure, UsageError } from './errors.ts'
import { type Io, isTerminal } from './io.ts'
import type { Session } from './session.ts'

/** Reads one line, without the spaces around it. */
async function readLine(io: Io, question: string): Promise<string> {
  const { createInterface } = await import('node:readline/promises')
  const prompt = createInterface({ input: io.input, output: io.errors, terminal: false })
  try {
    return (await prompt.question(question)).trim()
  } finally {
    prompt.close()
  }
}

const needsYes = 'cannot ask for confirmation, because standard input is not a terminal: use --yes'

/** Asks yes or no. `reason`: the text before the question. @throws UsageError, CommandFailure */
export async function agree({ io }: Session, { yes }: ConfirmOptions, reason: string): Promise<void> {
  io.errors.write(`${escapeLines(reason)}\n`)
  if (yes === true) return
  if (!isTerminal(io.input)) throw new UsageError(needsYes)
  const typed = await readLine(io, 'Continue? [y/N] ')
  if (!/^y(es)?$/i.test(typed)) throw new CommandFailure('not confirmed: nothing was changed')
}

/** Asks the user to type `name`. `lost`: a sentence that names what will be lost. @throws UsageError, CommandFailure */
export async function confirm({ io }: Session, { yes }: ConfirmOptions, name: string, lost: string): Promise<void> {
  if (yes === true) return
  if (!isTerminal(io.input)) throw new UsageError(needsYes)
  io.errors.write(`${escapeLines(lost)}\n`)
  const typed = await readLine(io, `Type ${escapeControls(name)} to continue: `)
  if (typed !== name) throw new CommandFailure(`the typed name is not ${escapeControls(name)}: nothing was changed`)
}
