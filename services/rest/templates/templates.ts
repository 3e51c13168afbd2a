/**
 * Caches parsed and planned requests. Requests that differ only in comparison values share one plan and its SQL.
 * Statements and errors are the same as if each request were the first of its template. The cache's size is limited.
 */
import { SieveCache } from '../../cache/sieve.ts'
import type { RequestHead } from '../../http/message.ts'
import type { SchemaCache } from '../../schema-cache/types.ts'
import { limited } from '../limits/plan-limits.ts'
import type { RoleLimits } from '../limits/role-limits.ts'
import type { Payload } from '../parse/payload.ts'
import { encoded } from '../parse/query.ts'
import { type Action, type ApiRequest, parseRequest, type RequestRules } from '../parse/request.ts'
import type { PlanSettings } from '../plan/context.ts'
import type { Delivery } from '../plan/delivery.ts'
import { type PlannedAction, plan as planRequest, planWithoutBody } from '../plan/index.ts'
import type { Plan } from '../plan/types.ts'
import { type Rendered, render } from '../sql/index.ts'
import { type Fill, placeholder, renderedTemplate, textTemplate } from './template.ts'
import { extractValues } from './values.ts'

/** A plan and its statements. If the plan is from the cache, its values are placeholders. */
export type Planned = { readonly plan: Plan; readonly render: (delivery: Delivery) => Rendered }

export type PreparedRequest = {
  /** If the request is from the cache, its filters contain placeholders. */
  readonly request: ApiRequest
  /**
   * `action`: the request's own action. `payload`: defined if the request has a body.
   * @throws RestError
   */
  readonly plan: (action: PlannedAction, payload: Payload | undefined) => Planned
  /** Returns the possible plans before the body is known, with the request's values. @throws RestError */
  readonly plansWithoutBody: (action: PlannedAction) => readonly Plan[]
}

/** The role, and the parts of the plan that depend on it. */
type Requester = { readonly role: string; readonly limits: RoleLimits }

/** The input of all plans. */
type Basis = { readonly rules: RequestRules; readonly cache: SchemaCache; readonly planSettings: PlanSettings }

const maximumCached = 500
const longestKey = 6_000
/**
 * The maximum length of a cached statement, in characters. Longer plans and statements could need hundreds of
 * megabytes, and such queries are slow for other reasons.
 */
const longestText = 8_000

/** The headers that the parser reads. */
const read = ['accept', 'prefer', 'accept-profile', 'content-profile', 'content-type', 'range'] as const

/** One request, with the values that its template omits. */
type One = {
  readonly http: RequestHead
  readonly requester: Requester
  readonly key: string
  readonly values: readonly string[]
}

/**
 * The plans of requests with one template, or with one template and one set of body keys. 'unlike': each of these
 * requests needs its own plan.
 */
type Cached<T> = T | 'unlike'

export class StatementTemplates {
  readonly #basis: Basis
  readonly #requests = new SieveCache<Cached<(one: One) => PreparedRequest>>(maximumCached)
  readonly #bodies = new SieveCache<Cached<Fill<Planned>>>(maximumCached)

  constructor(basis: Basis) {
    this.#basis = basis
  }

  /** @throws RestError if the request cannot be parsed */
  prepare(http: RequestHead, requester: Requester): PreparedRequest {
    const { method, path, query } = http
    const ofFunction = (method === 'GET' || method === 'HEAD') && path.startsWith('/rpc/')
    const withoutValues = extractValues(query, ofFunction, placeholder)
    const key = withoutValues && keyOf(http, withoutValues.query, requester)
    if (withoutValues === undefined || key === undefined || key.length > longestKey) return this.#alone(http, requester)
    let cached = this.#requests.get(key)
    if (cached === undefined) {
      cached = this.#createTemplate({ ...http, query: withoutValues.query }, withoutValues.values.length, requester)
      this.#requests.set(key, cached)
    }
    return cached === 'unlike'
      ? this.#alone(http, requester)
      : cached({ http, requester, key, values: withoutValues.values })
  }

  #alone(http: RequestHead, requester: Requester): PreparedRequest {
    const { rules, cache, planSettings } = this.#basis
    const request = parseRequest(http, rules)
    return {
      request,
      plansWithoutBody: action => planWithoutBody(request, action, cache, planSettings),
      plan: (action, payload) => {
        const plan = this.#plan(request, action, payload, requester)
        return { plan, render: delivery => render(plan, delivery) }
      },
    }
  }

  #plan(request: ApiRequest, action: PlannedAction, payload: Payload | undefined, { role, limits }: Requester): Plan {
    const { cache, planSettings } = this.#basis
    return limited(planRequest(request, action, payload, cache, planSettings), role, limits)
  }

  #createTemplate(http: RequestHead, count: number, requester: Requester): Cached<(one: One) => PreparedRequest> {
    try {
      const request = parseRequest(http, this.#basis.rules)
      const { action, body, query } = request
      const canonical = textTemplate(query.canonical, encoded)
      const requestOf = (values: readonly string[]) =>
        count === 0 ? request : { ...request, query: { ...query, canonical: canonical(values) } }
      if (!isPlanned(action)) return count === 0 ? ({ http: own }) => this.#alone(own, requester) : 'unlike'
      if (body !== undefined) {
        return one => ({
          request: requestOf(one.values),
          plansWithoutBody: own => this.#alone(one.http, requester).plansWithoutBody(own),
          plan: (own, payload) => this.#planWithBody(one, request, own, payload),
        })
      }
      const planned = template(this.#plan(request, action, undefined, requester), count)
      if (planned === 'unlike') return planned
      return ({ values }) => ({
        request: requestOf(values),
        plansWithoutBody: () => [],
        plan: () => planned(values),
      })
    } catch {
      // The error must contain the request's values.
      return 'unlike'
    }
  }

  #planWithBody(one: One, request: ApiRequest, action: PlannedAction, payload: Payload | undefined): Planned {
    const { http, requester, key, values } = one
    const bodyKey = payload && bodyKeyOf(payload)
    const fullKey = `${key}\n${bodyKey}`
    if (payload?.kind !== 'json' || bodyKey === undefined || fullKey.length > longestKey) {
      return this.#alone(http, requester).plan(action, payload)
    }
    let cached = this.#bodies.get(fullKey)
    if (cached === undefined) {
      cached = this.#createBodyTemplate(request, action, { ...payload, json: placeholder(values.length) }, one)
      this.#bodies.set(fullKey, cached)
    }
    return cached === 'unlike' ? this.#alone(http, requester).plan(action, payload) : cached([...values, payload.json])
  }

  #createBodyTemplate(
    request: ApiRequest,
    action: PlannedAction,
    payload: Payload,
    { requester, values }: One,
  ): Cached<Fill<Planned>> {
    try {
      return template(this.#plan(request, action, payload, requester), values.length + 1)
    } catch {
      return 'unlike'
    }
  }
}

const isPlanned = (action: Action): action is PlannedAction =>
  action.kind !== 'openapi' && !action.kind.startsWith('options')

/** A plan that has this many placeholders. */
function template(plan: Plan, count: number): Cached<Fill<Planned>> {
  if (plan.body.explain !== undefined || (plan.kind === 'read' && plan.keyset !== undefined)) return 'unlike'
  const first = render(plan, 'whole')
  if (first.main.text.length > longestText || (first.write?.text.length ?? 0) > longestText) return 'unlike'
  const fillOf = (delivery: Delivery) => renderedTemplate(render(plan, delivery), count)
  const [complete, rows, made] = [renderedTemplate(first, count), fillOf('rows'), fillOf('made rows')]
  if (complete === undefined || rows === undefined || made === undefined) return 'unlike'
  const fills = { whole: complete, rows, 'made rows': made } satisfies Record<Delivery, Fill<Rendered>>
  return values => ({ plan, render: delivery => fills[delivery](values) })
}

function keyOf({ method, path, headers }: RequestHead, query: string, { role, limits }: Requester): string {
  const isLimited = limits.rows !== undefined || limits.cost !== undefined
  // A header cannot contain a line break. An empty header differs from a missing one.
  const headerValues = read.map(name => headers[name] ?? '\r').join('\n')
  return `${method} ${path}?${query}\n${headerValues}\n${isLimited ? role : ''}`
}

/** The parts of a body on which its plan depends. Undefined if each such body needs its own plan. */
function bodyKeyOf(payload: Payload): string | undefined {
  if (payload.kind !== 'json' || payload.csvKeys !== undefined) return undefined
  return `${payload.isArray} ${JSON.stringify(payload.keys)}`
}
