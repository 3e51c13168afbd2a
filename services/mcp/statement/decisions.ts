/**
 * Decisions on callers' statements. A decision is cached by the statement's text while settings and catalogue facts are
 * unchanged. Refusals are not cached.
 */
import { SieveCache } from '../../cache/sieve.ts'
import { type Analysis, analyse, calledNames } from './analysis.ts'
import { type Decision, decide, type Permissions } from './decide.ts'
import type { CatalogueFacts } from './facts.ts'
import { parseStatement } from './parser.ts'

/** The maximum number of cached decisions of one database, and the maximum length of a cached text, in characters. */
const maximumCached = 256
const longestText = 2_000

export type CheckedStatement = {
  readonly statement: Pick<Analysis, 'class' | 'tag' | 'text' | 'hasLimit'>
  readonly decision: Decision
}

type CachedDecision = CheckedStatement & { readonly calls: readonly string[] }
type Current = { readonly facts: CatalogueFacts; readonly decisions: SieveCache<CachedDecision> }

/** Returns the current facts. Reads them again if one of these functions is unknown. */
type FactsFor = (calls: readonly string[]) => Promise<CatalogueFacts>

type Decisions = {
  /**
   * `permissions`: the settings object of a database. A change of settings creates a new object.
   * @throws StatementRefusal; the errors of `factsFor`
   */
  of(query: string, permissions: Permissions, factsFor: FactsFor): Promise<CheckedStatement>
}

export function createDecisions(): Decisions {
  const current = new WeakMap<Permissions, Current>()

  async function judged(query: string, permissions: Permissions, factsFor: FactsFor): Promise<CheckedStatement> {
    const analysis = analyse(await parseStatement(query))
    const calls = calledNames(analysis)
    const facts = await factsFor(calls)
    const decision = decide(analysis, facts, permissions)
    const { class: kind, tag, text, hasLimit } = analysis
    const made = { statement: { class: kind, tag, text, hasLimit }, decision, calls }
    if (query.length <= longestText) {
      const known = current.get(permissions)
      const { decisions } =
        known?.facts === facts ? known : { decisions: new SieveCache<CachedDecision>(maximumCached) }
      decisions.set(query, made)
      current.set(permissions, { facts, decisions })
    }
    return made
  }

  return {
    async of(query, permissions, factsFor) {
      const known = current.get(permissions)
      const cached = known?.decisions.get(query)
      if (cached !== undefined && (await factsFor(cached.calls)) === known?.facts) return cached
      return judged(query, permissions, factsFor)
    },
  }
}
