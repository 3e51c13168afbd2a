/**
 * The judge sends a request to both servers, to PostgREST in PostgREST's form. It returns the differences that no rule
 * explains.
 */
import type { Difference } from './compare.ts'
import type { SentRequest } from './request.ts'
import { rules, translated } from './rules/index.ts'
import { judged } from './rules/judged.ts'
import { isDone, type Rule } from './rules/rule.ts'
import type { startBoth } from './servers.ts'
import { withStableOrder } from './stable-order.ts'

type Both = Pick<Awaited<ReturnType<typeof startBoth>>, 'sendToBoth' | 'sendToPostgrest'>
type Answers = Awaited<ReturnType<Both['sendToBoth']>>

/** How many parts of a request are sent separately, at most. */
const mostParts = 600

/** How often each rule explained a difference. */
export class Judge {
  readonly #counts = new Map<string, number>()
  readonly #both: Both
  readonly #isAlwaysPage: boolean

  /** `isAlwaysPage`: db-max-rows is set. */
  constructor(both: Both, isAlwaysPage: boolean) {
    this.#both = both
    this.#isAlwaysPage = isAlwaysPage
  }

  /** The request with a total order. Undefined if its pages have no total order. */
  stable(sent: SentRequest): SentRequest | undefined {
    // A view has several rows for a to-one embedding, and the rows on a page are random.
    const isOfChance = this.#isAlwaysPage && sent.query.some(([, text]) => text.includes('client_projects'))
    return isOfChance ? undefined : withStableOrder(sent, this.#isAlwaysPage)
  }

  async differences(one: SentRequest): Promise<readonly Difference[]> {
    const sent = this.stable(one)
    if (sent === undefined) return this.#exclude('a page that no order can be given to')
    const old = translated(sent)
    if (/^\/rpc\/(told|header)$/.test(sent.path) && old.sent.headers !== sent.headers)
      return this.#exclude('a function that shows headers, with one in other words')
    const answers = await this.#both.sendToBoth(old.sent, sent)
    const { differences, by } = judged(rules, sent, answers.theirs, answers.ours)
    const found = differences.length === 0 ? [...old.by, ...by] : await this.#instead(sent, answers)
    for (const { rule } of new Set(found)) this.#count(rule)
    return found === undefined ? differences : []
  }

  /** Rules for a service response that equals PostgREST's response to a part of the request. */
  async #instead(sent: SentRequest, { theirs, ours }: Answers): Promise<readonly Rule[] | undefined> {
    for (const rule of rules) {
      let remaining = mostParts
      for (const part of rule.instead?.({ sent, theirs, ours }) ?? []) {
        if (remaining-- === 0) break
        const answer = await this.#both.sendToPostgrest(translated(part).sent)
        // If HEAD fails and GET succeeds, the error has no text.
        const expected = ours.text === '' ? { ...answer, text: '' } : answer
        const { differences, by } = judged(rules, isDone(ours) ? sent : part, expected, ours)
        if (differences.length === 0) return [rule, ...by]
      }
    }
    return undefined
  }

  #exclude(what: string): readonly Difference[] {
    this.#count(`not sent: ${what}`)
    return []
  }

  /** The rules, and how many responses each rule explains. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  #count(rule: string) {
    this.#counts.set(rule, (this.#counts.get(rule) ?? 0) + 1)
  }
}
