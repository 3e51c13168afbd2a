/** What our answer has to be by the rules, and in which parts it is not. */
import type { Answer } from '../../../../testing/client.ts'
import { type Difference, differences } from '../compare.ts'
import type { Asked } from '../request.ts'
import type { Rule } from './rule.ts'

type Expected = { readonly answer: Answer; readonly by: readonly Rule[] }

const isSame = (one: Answer, other: Answer): boolean =>
  one.text === other.text && one.status === other.status && one.headers === other.headers

/** What ours may answer, each with the rules that say so: theirs, as each rule in turn changes it. */
function expectedOf(rules: readonly Rule[], asked: Asked, theirs: Answer): readonly Expected[] {
  let all: readonly Expected[] = [{ answer: theirs, by: [] }]
  for (const rule of rules)
    all = all.flatMap(one => {
      const answers = rule.answers?.({ asked, theirs: one.answer }) ?? []
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

/** The differences from what is nearest to ours of what ours may answer, and the rules that it follows from. */
export function judged(
  rules: readonly Rule[],
  asked: Asked,
  theirs: Answer,
  ours: Answer,
): { readonly differences: readonly Difference[]; readonly by: readonly Rule[] } {
  const found = expectedOf(rules, asked, theirs).map(({ answer, by }) => {
    const [expected, reduced] = [reducedOf(rules, answer), reducedOf(rules, ours)]
    return { differences: differences(asked, expected.answer, reduced.answer), by: [...by, ...expected.by] }
  })
  return found.reduce((best, one) => (one.differences.length < best.differences.length ? one : best))
}
