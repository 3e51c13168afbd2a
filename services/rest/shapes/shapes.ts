/**
 * Requests that differ only in the values they compare with are parsed, planned and written as SQL once. It promises that a request is asked of Postgres, and refused, as it would be if it
 * were the first of its shape, and that what is kept has a bound.
 */
import { SieveCache } from '../../authentication/sieve.ts'
import type { RequestHead } from '../../http/message.ts'
import type { SchemaCache } from '../../schema-cache/types.ts'
import { limited } from '../limits/plan-limits.ts'
import type { RoleLimits } from '../limits/role-limits.ts'
import { encoded } from '../parse/query.ts'
import { type ApiRequest, parseRequest, type RequestRules } from '../parse/request.ts'
import type { PlanSettings } from '../plan/context.ts'
import type { Delivery } from '../plan/delivery.ts'
import { type PlannedAction, plan as planRequest } from '../plan/index.ts'
import type { Plan } from '../plan/types.ts'
import { type Rendered, render } from '../sql/index.ts'
import { shapeOf } from './shape.ts'
import { type Fill, placeholder, renderedTemplate, textTemplate } from './template.ts'

/** A plan without a body, and its statements. Where it was kept, values in the plan itself are placeholders. */
export type Planned = { readonly plan: Plan; readonly render: (delivery: Delivery) => Rendered }

export type Asked = {
  /** Of one that was kept, its filters compare with placeholders. */
  readonly request: ApiRequest
  /** undefined: to be planned, with its body. */
  readonly planned: Planned | undefined
}

/** Who asks, and what of its plan depends on that. */
type Asking = { readonly role: string; readonly limits: RoleLimits }

/** What all requests are planned from. */
type Basis = { readonly rules: RequestRules; readonly cache: SchemaCache; readonly planSettings: PlanSettings }

const maximumKept = 500
const longestKey = 6_000

/** The headers that parsing reads. */
const read = ['accept', 'prefer', 'accept-profile', 'content-profile', 'content-type', 'range'] as const

/** Of requests of one shape; 'unlike' where they have to be looked at one by one. */
type Kept = Fill<Asked> | 'unlike'

export class Shapes {
  readonly #basis: Basis
  readonly #kept = new SieveCache<Kept>(maximumKept)

  constructor(basis: Basis) {
    this.#basis = basis
  }

  /** @throws RestError where the request cannot be parsed; where it cannot be planned, that may show only as it is. */
  ask(http: RequestHead, asking: Asking): Asked {
    const { method, path, query } = http
    const ofFunction = (method === 'GET' || method === 'HEAD') && path.startsWith('/rpc/')
    const shape = shapeOf(query, ofFunction, placeholder)
    const key = shape && keyOf(http, shape.query, asking)
    if (shape === undefined || key === undefined || key.length > longestKey) return this.#parse(http)
    let kept = this.#kept.get(key)
    if (kept === undefined) {
      kept = this.#learn({ ...http, query: shape.query }, shape.values.length, asking)
      this.#kept.set(key, kept)
    }
    return kept === 'unlike' ? this.#parse(http) : kept(shape.values)
  }

  #parse(http: RequestHead): Asked {
    return { request: parseRequest(http, this.#basis.rules), planned: undefined }
  }

  #learn(http: RequestHead, count: number, asking: Asking): Kept {
    try {
      const { request } = this.#parse(http)
      const { action, body } = request
      const isPlannedAlone =
        body === undefined && (action.kind === 'read' || action.kind === 'delete' || action.kind === 'call')
      if (isPlannedAlone) return this.#template(request, action, count, asking)
      return count === 0 ? () => ({ request, planned: undefined }) : 'unlike'
    } catch {
      // Its error is to name what was sent.
      return 'unlike'
    }
  }

  #template(request: ApiRequest, action: PlannedAction, count: number, { role, limits }: Asking): Kept {
    const { cache, planSettings } = this.#basis
    const { query } = request
    const plan = limited(planRequest(request, action, undefined, cache, planSettings), role, limits)
    if (plan.body.explain !== undefined || (plan.kind === 'read' && plan.keyset !== undefined)) return 'unlike'
    const fillOf = (delivery: Delivery) => renderedTemplate(render(plan, delivery), count)
    const [whole, rows, made] = [fillOf('whole'), fillOf('rows'), fillOf('made rows')]
    if (whole === undefined || rows === undefined || made === undefined) return 'unlike'
    const fills = { whole, rows, 'made rows': made } satisfies Record<Delivery, Fill<Rendered>>
    const canonical = textTemplate(query.canonical, encoded)
    return values => ({
      request: count === 0 ? request : { ...request, query: { ...query, canonical: canonical(values) } },
      planned: { plan, render: delivery => fills[delivery](values) },
    })
  }
}

function keyOf({ method, path, headers }: RequestHead, query: string, { role, limits }: Asking): string {
  const isLimited = limits.rows !== undefined || limits.cost !== undefined
  // No header holds a line break.
  const said = read.map(name => headers[name] ?? '\n').join('\n')
  return `${method} ${path}?${query}\n${said}\n${isLimited ? role : ''}`
}
