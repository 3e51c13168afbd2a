/** The judge: asks both servers, ours as the request is and PostgREST in its own words, and says what in our answer no rule explains. */
import type { Difference } from './compare.ts'
import type { Asked } from './request.ts'
import { rules, translated } from './rules/index.ts'
import { judged } from './rules/judged.ts'
import { isDone, type Rule } from './rules/rule.ts'
import type { startBoth } from './servers.ts'
import { withStableOrder } from './stable-order.ts'

type Both = Pick<Awaited<ReturnType<typeof startBoth>>, 'ask' | 'askTheirs'>
type Answers = Awaited<ReturnType<Both['ask']>>

/** How many parts of a request are asked for. */
const mostParts = 600

/** How often each rule explained an answer. */
export class Judge {
  readonly #counts = new Map<string, number>()
  readonly #both: Both
  readonly #isAlwaysPage: boolean

  /** `isAlwaysPage`: db-max-rows is set. */
  constructor(both: Both, isAlwaysPage: boolean) {
    this.#both = both
    this.#isAlwaysPage = isAlwaysPage
  }

  /** The request with the order that it is asked with; undefined where its pages have none. */
  stable(asked: Asked): Asked | undefined {
    // A view has several rows for what it is to one of, and which are on a page is chance.
    const isOfChance = this.#isAlwaysPage && asked.query.some(([, text]) => text.includes('client_projects'))
    return isOfChance ? undefined : withStableOrder(asked, this.#isAlwaysPage)
  }

  async differences(one: Asked): Promise<readonly Difference[]> {
    const asked = this.stable(one)
    if (asked === undefined) return this.#unasked('a page that no order can be given to')
    const old = translated(asked)
    if (/^\/rpc\/(told|header)$/.test(asked.path) && old.asked.headers !== asked.headers)
      return this.#unasked('a function that shows headers, with one in other words')
    const answers = await this.#both.ask(old.asked, asked)
    const { differences, by } = judged(rules, asked, answers.theirs, answers.ours)
    const found = differences.length === 0 ? [...old.by, ...by] : await this.#instead(asked, answers)
    for (const { rule } of new Set(found)) this.#count(rule)
    return found === undefined ? differences : []
  }

  /** The rules by which ours is what PostgREST answers to a part of the request. */
  async #instead(asked: Asked, { theirs, ours }: Answers): Promise<readonly Rule[] | undefined> {
    for (const rule of rules) {
      let left = mostParts
      for (const part of rule.instead?.({ asked, theirs, ours }) ?? []) {
        if (left-- === 0) break
        const answer = await this.#both.askTheirs(translated(part).asked)
        // An error of HEAD that GET does not make has no text.
        const expected = ours.text === '' ? { ...answer, text: '' } : answer
        const { differences, by } = judged(rules, isDone(ours) ? asked : part, expected, ours)
        if (differences.length === 0) return [rule, ...by]
      }
    }
    return undefined
  }

  #unasked(what: string): readonly Difference[] {
    this.#count(`not asked: ${what}`)
    return []
  }

  /** What explains how many answers. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  #count(rule: string) {
    this.#counts.set(rule, (this.#counts.get(rule) ?? 0) + 1)
  }
}
