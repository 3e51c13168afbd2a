/** Commands to HAProxy's runtime API whose answers are checked. */
import { addCommands, type MapContent } from './maps.ts'
import type { RuntimeConnection } from './runtime.ts'

/** HAProxy's answer was unexpected, or the connection has ended. */
class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

/**
 * The maximum number of unanswered commands. With several, HAProxy does not wait for the next command. After an
 * unexpected answer, at most this many commands have been sent.
 */
const window = 32

/** Sends commands that HAProxy must answer with an empty text. @throws RefusedError */
export async function expectDone(connection: RuntimeConnection, commands: readonly string[]): Promise<void> {
  for (let at = 0; at < commands.length; at += window) {
    const sent = commands.slice(at, at + window)
    const answers = await Promise.all(sent.map(command => connection.command(command)))
    for (const answer of answers)
      if (textOf(answer) !== '') throw new RefusedError(`unexpected answer from HAProxy: ${textOf(answer)}`)
  }
}

/** Checks that HAProxy answers. @throws RefusedError */
export async function expectAnswer(connection: RuntimeConnection): Promise<void> {
  textOf(await connection.command('show info'))
}

/** HAProxy's answer to a command that it may refuse. @throws RefusedError if the connection has ended */
export async function answerOf(connection: RuntimeConnection, command: string): Promise<string> {
  const answer = await connection.command(command)
  return answer.kind === 'lost' ? textOf(answer) : answer.text
}

/** Replaces all lines of a map in one transaction. @throws RefusedError */
export async function replaceMap(connection: RuntimeConnection, { map, lines }: MapContent): Promise<void> {
  const prepared = textOf(await connection.command(`prepare map ${map}`))
  const version = /^New version created: ([0-9]+)$/.exec(prepared)?.[1]
  if (version === undefined) throw new RefusedError(`unexpected answer from HAProxy: ${prepared}`)
  await expectDone(connection, addCommands(map, version, lines))
  await expectDone(connection, [`commit map @${version} ${map}`])
}

function textOf(answer: Awaited<ReturnType<RuntimeConnection['command']>>): string {
  if (answer.kind === 'lost') throw new RefusedError(`HAProxy has disconnected (${answer.reason})`)
  return answer.text.slice(0, 300)
}
