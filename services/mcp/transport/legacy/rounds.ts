/** A call that needs something of the user, for a client that is asked directly: the call is made, its requests are sent, and it is made again with the answers. */

import { ProtocolError } from '../../../mcp-protocol/errors.ts'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import type { Ability, Answers, InputRequest, Outcome } from '../../core/call.ts'
import { CoreError } from '../../core/errors.ts'
import { missingCapability } from '../abilities.ts'

const maximumRounds = 8

type Rounds = {
  call(answers: Answers | undefined): Promise<Outcome<object>>
  readonly abilities: ReadonlySet<Ability>
  /** undefined where the client cannot be asked. */
  readonly ask: ((request: InputRequest) => Promise<JsonObject>) | undefined
}

/** @throws CoreError where the client has not declared what it is asked for; ProtocolError */
export async function answered({ call, abilities, ask }: Rounds): Promise<object> {
  let answers: Answers | undefined
  for (let round = 0; round <= maximumRounds; round++) {
    const outcome = await call(answers)
    if (outcome.kind === 'result') return outcome.result
    const entries = Object.entries(outcome.requests)
    for (const [, request] of entries) {
      const required = missingCapability(request, abilities)
      if (required !== undefined) throw new CoreError({ kind: 'missing ability', required })
    }
    if (ask === undefined) throw new ProtocolError({ kind: 'no answer', problem: 'the client cannot be asked here' })
    const responses = await Promise.all(entries.map(async ([key, request]) => [key, await ask(request)] as const))
    answers = { responses: Object.fromEntries(responses), state: outcome.state }
  }
  throw new ProtocolError({ kind: 'no answer', problem: `the call has asked more than ${maximumRounds} times` })
}
