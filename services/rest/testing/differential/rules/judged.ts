/** The response that the rules expect, and the differences from it. */
import type { Answer } from '../../../../testing/client.ts'
import { type Difference, differences } from '../compare.ts'
import type { SentRequest } from '../request.ts'
import type { Rule } from './rule.ts'

type Expected = { readonly answer: Answer; readonly by: readonly Rule[] }

const isSame = (one: Answer, other: Answer): boolean =>
  one.text === other.text && one.status === other.status && one.headers === other.headers

/** The expected responses, each with its rules. They are PostgREST's response, as each rule changes it in order. */
function expectedOf(rules: readonly Rule[], sent: SentRequest, theirs: Answer): readonly Expected[] {
  let all: readonly Expected[] = [{ answer: theirs, by: [] }]
  for (const rule of rules)
    all = all.flatMap(one => {
      const answers = rule.answers?.({ sent, theirs: one.answer }) ?? []
      return answers.length === 0
        ? [one]
        : answers.map(answer => ({ answer, by: isSame(answer, one.answer) ? one.by : [...one.by, rule] }))
    })
  return all
}

function reducedOf(rules: readonly Rule[], answer: Answer): Expected {
  const by = rules.filter(rule => rule.reduces?.(answer) !== undefined)
  return { answer: by.reduce((one, rule) => rule.reduces?.(one) ?? one, answer), by }
}

/** The differences from the nearest expected response, and that response's rules. */
export function judged(
  rules: readonly Rule[],
  sent: SentRequest,
  theirs: Answer,
  ours: Answer,
): { readonly differences: readonly Difference[]; readonly by: readonly Rule[] } {
  const found = expectedOf(rules, sent, theirs).map(({ answer, by }) => {
    const [expected, reduced] = [reducedOf(rules, answer), reducedOf(rules, ours)]
    return { differences: differences(sent, expected.answer, reduced.answer), by: [...by, ...expected.by] }
  })
  return found.reduce((best, one) => (one.differences.length < best.differences.length ? one : best))
}
