/**
 * Verdicts on callers' statements. Each is kept, by the text of the statement, as long as the settings and the catalogue facts that it rests on are the current ones. Refusals are
 * not kept.
 */
import { SieveCache } from '../../cache/sieve.ts'
import { type Analysis, analyse, calledNames } from './analysis.ts'
import type { CatalogueFacts } from './facts.ts'
import { judge, type Permissions, type Verdict } from './judge.ts'
import { parseStatement } from './parser.ts'

/** Verdicts kept of one database, and the longest text that is kept, in characters. */
const maximumKept = 256
const longestText = 2_000

export type Judged = {
  readonly statement: Pick<Analysis, 'class' | 'tag' | 'text' | 'hasLimit'>
  readonly verdict: Verdict
}

type Kept = Judged & { readonly calls: readonly string[] }
type Current = { readonly facts: CatalogueFacts; readonly verdicts: SieveCache<Kept> }

/** Reads the current facts, and reads them again where one of these functions is not known. */
type FactsFor = (calls: readonly string[]) => Promise<CatalogueFacts>

type Judgements = {
  /**
   * `permissions`: the settings of a database, which change by being replaced.
   * @throws StatementRefusal; what `factsFor` does
   */
  of(query: string, permissions: Permissions, factsFor: FactsFor): Promise<Judged>
}

export function createJudgements(): Judgements {
  const current = new WeakMap<Permissions, Current>()

  async function judged(query: string, permissions: Permissions, factsFor: FactsFor): Promise<Judged> {
    const analysis = analyse(await parseStatement(query))
    const calls = calledNames(analysis)
    const facts = await factsFor(calls)
    const verdict = judge(analysis, facts, permissions)
    const { class: kind, tag, text, hasLimit } = analysis
    const made = { statement: { class: kind, tag, text, hasLimit }, verdict, calls }
    if (query.length <= longestText) {
      const known = current.get(permissions)
      const { verdicts } = known?.facts === facts ? known : { verdicts: new SieveCache<Kept>(maximumKept) }
      verdicts.set(query, made)
      current.set(permissions, { facts, verdicts })
    }
    return made
  }

  return {
    async of(query, permissions, factsFor) {
      const known = current.get(permissions)
      const kept = known?.verdicts.get(query)
      if (kept !== undefined && (await factsFor(kept.calls)) === known?.facts) return kept
      return judged(query, permissions, factsFor)
    },
  }
}
