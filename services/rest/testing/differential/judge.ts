/** The judge: asks both servers, ours as the request is and PostgREST in its own words, and says what in our answer nothing explains. */
import type { Answer } from '../../../testing/client.ts'
import type { Difference } from './compare.ts'
import { codeOf } from './exceptions/exception.ts'
import { exceptions, explain } from './exceptions/index.ts'
import { isCoded, unanswered } from './exceptions/unanswered.ts'
import type { Asked } from './request.ts'
import type { startBoth } from './servers.ts'
import { withStableOrder } from './stable-order.ts'
import { translated, translations } from './translations.ts'

type Both = Pick<Awaited<ReturnType<typeof startBoth>>, 'ask'>

/** How often each rule, translation and fault explained an answer. */
export class Judge {
  readonly #counts = new Map<string, number>()
  #asked = 0
  #unanswered = 0
  readonly #both: Both
  readonly #isAlwaysPage: boolean

  /** `isAlwaysPage`: db-max-rows is set. */
  constructor(both: Both, isAlwaysPage: boolean) {
    this.#both = both
    this.#isAlwaysPage = isAlwaysPage
  }

  /** The request with the order that it is asked with. */
  stable(asked: Asked): Asked | undefined {
    return withStableOrder(asked, this.#isAlwaysPage)
  }

  async differences(one: Asked): Promise<readonly Difference[]> {
    const asked = this.stable(one)
    if (asked === undefined) {
      this.#count('a page of groups that no order can be given to: not asked')
      return []
    }
    const old = translated(asked)
    if (/^\/rpc\/(told|header)$/.test(asked.path) && old.asked.headers !== asked.headers) {
      this.#count('a function that shows headers, with a translated one: not asked')
      return []
    }
    this.#asked++
    const { theirs, ours } = await this.#both.ask(old.asked, asked)
    if (old.by.length > 0 && codeOf(theirs) === 'RST100') return this.#unreadable(asked, theirs, ours)
    for (const { rule } of old.by) this.#count(rule)
    const fault = unanswered.find(({ applies }) => applies(old.asked, theirs))
    if (fault !== undefined) {
      this.#unanswered++
      this.#count(fault.fault)
      return isCoded(ours) ? [] : [{ part: 'status', theirs: 'an answer or an error with a code', ours: ours.text }]
    }
    const { differences, by } = explain(asked, theirs, ours)
    for (const { rule } of by) this.#count(rule)
    return differences
  }

  /** Errors of syntax quote the request: they are those of the request as it is, or tell the same fault at another place. */
  async #unreadable(asked: Asked, theirs: Answer, ours: Answer): Promise<readonly Difference[]> {
    const translated = explain(asked, theirs, ours).differences.filter(({ part }) => part !== 'message')
    if (translated.length === 0) return []
    const { theirs: plain } = await this.#both.ask(asked, asked)
    return explain(asked, plain, ours).differences
  }

  /** What explains how many answers, most first. */
  get summary(): string {
    const all = [...this.#counts].sort(([, one], [, other]) => other - one)
    return all.map(([rule, count]) => `${count}  ${rule}`).join('\n')
  }

  /** The exceptions and translations that explained nothing. */
  get unused(): readonly string[] {
    return [...exceptions, ...translations].map(({ rule }) => rule).filter(rule => !this.#counts.has(rule))
  }

  /** The share of requests that 12.0.2 could not answer. */
  get unansweredShare(): number {
    return this.#unanswered / Math.max(1, this.#asked)
  }

  #count(rule: string) {
    this.#counts.set(rule, (this.#counts.get(rule) ?? 0) + 1)
  }
}
