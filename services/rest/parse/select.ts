/** The grammar of `select`: fields, embedded relations and spreads, in any nesting. */
import { cast, comma, field, maximumDepth, name, spaced } from './field.ts'
import {
  after,
  ahead,
  always,
  atMost,
  attempt,
  before,
  chain,
  choice,
  end,
  list,
  map,
  nested,
  never,
  notBefore,
  optional,
  type Parser,
  token,
} from './parser.ts'
import { type AggregateName, aggregateNames, type SelectField, type SelectItem, type SelectRelation } from './types.ts'

const alias: Parser<string | undefined> = optional(attempt(before(name, before(token(':'), notBefore(/:/y, ['":"'])))))

type Parameter = { readonly hint: string } | { readonly join: 'inner' | 'left' }
const wordEnd = notBefore(/[\p{L}\p{N}\p{M}_$-]/uy)
const parameter: Parser<Parameter | undefined> = optional(
  after(
    token('!'),
    choice<Parameter>(
      attempt(map(before(token('left'), wordEnd), () => ({ join: 'left' as const }))),
      attempt(map(before(token('inner'), wordEnd), () => ({ join: 'inner' as const }))),
      attempt(map(name, hint => ({ hint }))),
    ),
  ),
)
const hintOf = (one: Parameter | undefined) => (one !== undefined && 'hint' in one ? one.hint : undefined)
const joinOf = (one: Parameter | undefined) => (one !== undefined && 'join' in one ? one.join : undefined)

type Head = Omit<SelectRelation, 'select'>

const headOf = (found: string, shown: string | undefined, spread: boolean): Parser<Head> =>
  chain(parameter, one =>
    chain(parameter, other =>
      map(attempt(ahead(token('('))), () => ({
        kind: 'relation' as const,
        name: found,
        alias: shown,
        hint: hintOf(one) ?? hintOf(other),
        join: joinOf(one) ?? joinOf(other),
        spread,
      })),
    ),
  )
const spreadHead: Parser<Head> = spaced(chain(after(token('...'), name), found => headOf(found, undefined, true)))
const relationHead: Parser<Head> = spaced(
  // count() is an aggregate.
  chain(alias, shown => chain(name, found => (found === 'count' ? never : headOf(found, shown, false)))),
)

const itemEnd = choice(attempt(ahead(token(')'))), attempt(ahead(token(','))), attempt(end))
const all: SelectField['field'] = { name: '*', path: [] }
const plain = (target: SelectField['field']): SelectField => ({
  kind: 'field',
  field: target,
  alias: undefined,
  cast: undefined,
  aggregate: undefined,
})

const star: Parser<SelectField> = map(before(token('*'), itemEnd), () => plain(all))
const count: Parser<SelectField> = chain(alias, shown =>
  after(
    token('count()'),
    map(before(cast, itemEnd), type => ({
      ...plain(all),
      alias: shown,
      aggregate: { name: 'count' as const, cast: type },
    })),
  ),
)
/** `max` and `min` share a prefix, so the parser tries both. */
const aggregate: Parser<AggregateName> = choice(
  ...aggregateNames.map(one => {
    const found = map(token(one), () => one)
    return one === 'max' || one === 'min' ? attempt(found) : found
  }),
)
const column: Parser<SelectField> = chain(alias, shown =>
  chain(field, target =>
    chain(cast, type =>
      chain(optional(attempt(after(token('.'), before(aggregate, token('()'))))), function_ =>
        map(before(cast, itemEnd), resultType => ({
          ...plain(target),
          alias: shown,
          cast: type,
          aggregate: function_ === undefined ? undefined : { name: function_, cast: resultType },
        })),
      ),
    ),
  ),
)
const fieldItem: Parser<SelectItem> = spaced(choice<SelectItem>(attempt(star), attempt(count), column))

/**
 * Postgres's maximum (54011). Without this limit, the service would parse and plan for seconds before Postgres refuses.
 */
export const maximumSelected = 1_664

const itemsAt = (depth: number): Parser<SelectItem[]> =>
  nested(depth, maximumDepth, 'relations', () => {
    const inside = after(
      token('('),
      before((text, at) => itemsAt(depth + 1)(text, at), token(')')),
    )
    const embedded = (head: Parser<Head>): Parser<SelectItem> =>
      chain(attempt(head), found => map(inside, select => ({ ...found, select })))
    const item = choice<SelectItem>(embedded(spreadHead), embedded(relationHead), fieldItem)
    return choice<SelectItem[]>(list(atMost(maximumSelected, 'columns of a relation', item), comma), always([]))
  })

/** A complete `select`. An empty text selects nothing at this level. */
export const select: Parser<SelectItem[]> = itemsAt(0)
