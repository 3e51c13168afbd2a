/**
 * Runs a call. If the call needs input, sends its input requests to the client, and repeats the call with the answers.
 */

import { ProtocolError } from '../../../mcp-protocol/errors.ts'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import type { Answers, InputKind, InputRequest, Outcome } from '../../core/call.ts'
import { CoreError } from '../../core/errors.ts'
import { missingCapability } from '../input-kinds.ts'

const maximumRounds = 8
const tooManyRounds = `the call requested input more than ${maximumRounds} times`

type Rounds = {
  call(answers: Answers | undefined): Promise<Outcome<object>>
  readonly inputKinds: ReadonlySet<InputKind>
  /** Undefined if the client accepts no requests. */
  readonly sendToClient: ((request: InputRequest) => Promise<JsonObject>) | undefined
}

/** @throws CoreError if the client has not declared a required capability. @throws ProtocolError */
export async function answered({ call, inputKinds, sendToClient }: Rounds): Promise<object> {
  let answers: Answers | undefined
  for (let round = 0; ; round++) {
    const outcome = await call(answers)
    if (outcome.kind === 'result') return outcome.result
    if (round === maximumRounds) throw new ProtocolError({ kind: 'no answer', problem: tooManyRounds })
    const entries = Object.entries(outcome.requests)
    for (const [, request] of entries) {
      const required = missingCapability(request, inputKinds)
      if (required !== undefined) throw new CoreError({ kind: 'missing capability', required })
    }
    if (sendToClient === undefined)
      throw new ProtocolError({ kind: 'no answer', problem: 'the client accepts no requests from the server' })
    const responses = await Promise.all(
      entries.map(async ([key, request]) => [key, await sendToClient(request)] as const),
    )
    answers = { responses: Object.fromEntries(responses), state: outcome.state }
  }
}
