/**
 * Requests that differ only in the values they compare with are parsed, planned and written as SQL once. It promises that a request is asked of Postgres, and refused, as it would be if it
 * were the first of its shape, and that what is kept has a bound.
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
import { shapeOf } from './shape.ts'
import { type Fill, placeholder, renderedTemplate, textTemplate } from './template.ts'

/** A plan, and its statements. Where it was kept, values in the plan itself are placeholders. */
export type Planned = { readonly plan: Plan; readonly render: (delivery: Delivery) => Rendered }

export type Asked = {
  /** Where it was kept, its filters compare with placeholders. */
  readonly request: ApiRequest
  /**
   * `action` is the request's own; `payload` is there where it has a body.
   * @throws RestError
   */
  readonly plan: (action: PlannedAction, payload: Payload | undefined) => Planned
  /** What it could come to before its body is there, with the values that it compares with. @throws RestError */
  readonly plansWithoutBody: (action: PlannedAction) => readonly Plan[]
}

/** Who asks, and what of its plan depends on that. */
type Asking = { readonly role: string; readonly limits: RoleLimits }

/** What all requests are planned from. */
type Basis = { readonly rules: RequestRules; readonly cache: SchemaCache; readonly planSettings: PlanSettings }

const maximumKept = 500
const longestKey = 6_000
/** Of a statement, in characters: plans and statements of what is longer would come to hundreds of megabytes, and whoever asks a database so waits for other things. */
const longestText = 8_000

/** The headers that parsing reads. */
const read = ['accept', 'prefer', 'accept-profile', 'content-profile', 'content-type', 'range'] as const

/** One request, with the values that its shape has left out. */
type One = {
  readonly http: RequestHead
  readonly asking: Asking
  readonly key: string
  readonly values: readonly string[]
}

/** Of requests of one shape, or of such with bodies of one shape; 'unlike' where they have to be looked at one by one. */
type Kept<T> = T | 'unlike'

export class Shapes {
  readonly #basis: Basis
  readonly #requests = new SieveCache<Kept<(one: One) => Asked>>(maximumKept)
  readonly #bodies = new SieveCache<Kept<Fill<Planned>>>(maximumKept)

  constructor(basis: Basis) {
    this.#basis = basis
  }

  /** @throws RestError where the request cannot be parsed */
  ask(http: RequestHead, asking: Asking): Asked {
    const { method, path, query } = http
    const ofFunction = (method === 'GET' || method === 'HEAD') && path.startsWith('/rpc/')
    const shape = shapeOf(query, ofFunction, placeholder)
    const key = shape && keyOf(http, shape.query, asking)
    if (shape === undefined || key === undefined || key.length > longestKey) return this.#alone(http, asking)
    let kept = this.#requests.get(key)
    if (kept === undefined) {
      kept = this.#learn({ ...http, query: shape.query }, shape.values.length, asking)
      this.#requests.set(key, kept)
    }
    return kept === 'unlike' ? this.#alone(http, asking) : kept({ http, asking, key, values: shape.values })
  }

  #alone(http: RequestHead, asking: Asking): Asked {
    const { rules, cache, planSettings } = this.#basis
    const request = parseRequest(http, rules)
    return {
      request,
      plansWithoutBody: action => planWithoutBody(request, action, cache, planSettings),
      plan: (action, payload) => {
        const plan = this.#plan(request, action, payload, asking)
        return { plan, render: delivery => render(plan, delivery) }
      },
    }
  }

  #plan(request: ApiRequest, action: PlannedAction, payload: Payload | undefined, { role, limits }: Asking): Plan {
    const { cache, planSettings } = this.#basis
    return limited(planRequest(request, action, payload, cache, planSettings), role, limits)
  }

  #learn(http: RequestHead, count: number, asking: Asking): Kept<(one: One) => Asked> {
    try {
      const request = parseRequest(http, this.#basis.rules)
      const { action, body, query } = request
      const canonical = textTemplate(query.canonical, encoded)
      const requestOf = (values: readonly string[]) =>
        count === 0 ? request : { ...request, query: { ...query, canonical: canonical(values) } }
      if (!isPlanned(action)) return count === 0 ? ({ http: own }) => this.#alone(own, asking) : 'unlike'
      if (body !== undefined) {
        return one => ({
          request: requestOf(one.values),
          plansWithoutBody: own => this.#alone(one.http, asking).plansWithoutBody(own),
          plan: (own, payload) => this.#planWithBody(one, request, own, payload),
        })
      }
      const planned = template(this.#plan(request, action, undefined, asking), count)
      if (planned === 'unlike') return planned
      return ({ values }) => ({
        request: requestOf(values),
        plansWithoutBody: () => [],
        plan: () => planned(values),
      })
    } catch {
      // Its error is to name what was sent.
      return 'unlike'
    }
  }

  #planWithBody(one: One, request: ApiRequest, action: PlannedAction, payload: Payload | undefined): Planned {
    const { http, asking, key, values } = one
    const bodyKey = payload && bodyKeyOf(payload)
    const whole = `${key}\n${bodyKey}`
    if (payload?.kind !== 'json' || bodyKey === undefined || whole.length > longestKey) {
      return this.#alone(http, asking).plan(action, payload)
    }
    let kept = this.#bodies.get(whole)
    if (kept === undefined) {
      kept = this.#learnBody(request, action, { ...payload, json: placeholder(values.length) }, one)
      this.#bodies.set(whole, kept)
    }
    return kept === 'unlike' ? this.#alone(http, asking).plan(action, payload) : kept([...values, payload.json])
  }

  #learnBody(
    request: ApiRequest,
    action: PlannedAction,
    payload: Payload,
    { asking, values }: One,
  ): Kept<Fill<Planned>> {
    try {
      return template(this.#plan(request, action, payload, asking), values.length + 1)
    } catch {
      return 'unlike'
    }
  }
}

const isPlanned = (action: Action): action is PlannedAction =>
  action.kind !== 'openapi' && !action.kind.startsWith('options')

/** A plan of so many values, which stand in it as placeholders. */
function template(plan: Plan, count: number): Kept<Fill<Planned>> {
  if (plan.body.explain !== undefined || (plan.kind === 'read' && plan.keyset !== undefined)) return 'unlike'
  const first = render(plan, 'whole')
  if (first.main.text.length > longestText || (first.write?.text.length ?? 0) > longestText) return 'unlike'
  const fillOf = (delivery: Delivery) => renderedTemplate(render(plan, delivery), count)
  const [whole, rows, made] = [renderedTemplate(first, count), fillOf('rows'), fillOf('made rows')]
  if (whole === undefined || rows === undefined || made === undefined) return 'unlike'
  const fills = { whole, rows, 'made rows': made } satisfies Record<Delivery, Fill<Rendered>>
  return values => ({ plan, render: delivery => fills[delivery](values) })
}

function keyOf({ method, path, headers }: RequestHead, query: string, { role, limits }: Asking): string {
  const isLimited = limits.rows !== undefined || limits.cost !== undefined
  // No header holds a line break, and one that is empty is not one that is absent.
  const said = read.map(name => headers[name] ?? '\r').join('\n')
  return `${method} ${path}?${query}\n${said}\n${isLimited ? role : ''}`
}

/** What of a body its plan depends on; undefined of bodies that are planned each by itself. */
function bodyKeyOf(payload: Payload): string | undefined {
  if (payload.kind !== 'json' || payload.csvKeys !== undefined) return undefined
  return `${payload.isArray} ${JSON.stringify(payload.keys)}`
}
