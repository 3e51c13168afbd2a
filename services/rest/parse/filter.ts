/** The grammar of filters: `column=not.op(modifier).value`, and the logic trees of `and` and `or`. */
import { comma, dot, field, identifier, maximumDepth, quoted, spaced } from './field.ts'
import {
  after,
  always,
  any,
  attempt,
  before,
  chain,
  choice,
  found,
  list,
  map,
  named,
  nested,
  never,
  notBefore,
  optional,
  type Parser,
  some,
  token,
} from './parser.ts'
import {
  type Filter,
  isValues,
  type LogicTree,
  type Operation,
  plainOperators,
  type Quantifier,
  quantifiableOperators,
  searchOperators,
} from './types.ts'

/**
 * Parses one of these words. If one word is a prefix of another word, the longer word comes first (`gte` before `gt`).
 */
const word = <T extends string>(words: readonly T[]): Parser<T> =>
  found(new RegExp(words.join('|'), 'y'), choice(...words.map(one => attempt(map(token(one), () => one)))))

/** A quoted value that a terminator follows. */
const quotedValue = attempt(before(quoted, notBefore(/[^,)]/uy)))
const listItem = choice(quotedValue, any(/[^,)]*/uy))
const values: Parser<string[]> = map(
  after(spaced(token('(')), before(list(listItem, token(',')), spaced(token(')')))),
  found => (found.length === 1 && found[0] === '' ? [] : found),
)

/** A word in lower or upper case. */
const anyCase = <T extends string>(one: T): Parser<T> => {
  const letters = [...one].map(letter =>
    some(letter === '_' ? /_/y : new RegExp(`[${letter}${letter.toUpperCase()}]`, 'y')),
  )
  return map(
    letters.reduce((first, next) => after(first, next)),
    () => one,
  )
}
/* The word is compared letter by letter, so that the error points to the first wrong letter. */
const isValue: Parser<(typeof isValues)[number]> = named(
  'isVal: (null, not_null, true, false, unknown)',
  choice(...isValues.map(one => attempt(anyCase(one)))),
)

const quantifier: Parser<Quantifier | undefined> = optional(
  attempt(
    after(
      token('('),
      before(
        choice<Quantifier>(
          attempt(map(token('any'), () => 'any')),
          map(token('all'), () => 'all'),
        ),
        token(')'),
      ),
    ),
  ),
)

/**
 * Refuses a number or dash. Postgres would read it as the OID of a configuration, and fail with an internal error if no
 * configuration has this OID.
 */
const language: Parser<string | undefined> = optional(
  attempt(
    after(
      token('('),
      before(
        chain(identifier, found => (/^[0-9]*$/.test(found) ? never : always(found))),
        token(')'),
      ),
    ),
  ),
)

/** An operation whose value this parser reads. */
function operation(value: Parser<string>): Parser<Operation> {
  const after_ = (name: string) => attempt(after(token(name), dot))
  const searched = chain(word(searchOperators), operator =>
    chain(language, chosen =>
      after(
        dot,
        map(value, text => ({ kind: 'search' as const, operator, language: chosen, value: text })),
      ),
    ),
  )
  const plain = chain(named('unknown single value operator', word(plainOperators)), operator =>
    after(
      dot,
      map(value, text => ({ kind: 'plain' as const, operator, value: text })),
    ),
  )
  const compared = chain(named('unknown single value operator', word(quantifiableOperators)), operator =>
    chain(quantifier, all =>
      after(
        dot,
        map(value, text => ({ kind: 'compare' as const, operator, quantifier: all, value: text })),
      ),
    ),
  )
  return named(
    'operator (eq, gt, ...)',
    choice<Operation>(
      after(
        after_('in'),
        map(values, found => ({ kind: 'in' as const, values: found })),
      ),
      after(
        after_('is'),
        map(isValue, found => ({ kind: 'is' as const, value: found })),
      ),
      after(
        after_('isdistinct'),
        map(value, text => ({ kind: 'isdistinct' as const, value: text })),
      ),
      attempt(searched),
      attempt(plain),
      attempt(compared),
    ),
  )
}

type Negatable = Pick<Filter, 'negated' | 'operation'>

function negatable(value: Parser<string>): Parser<Negatable> {
  const plain = operation(value)
  const not = choice(attempt(map(after(token('not'), dot), () => true)), always(false))
  return chain(not, negated => map(plain, found => ({ negated, operation: found })))
}

/** The value of a filter parameter: all remaining text. */
export const filterValue: Parser<Negatable> = negatable(any(/[\s\S]*/uy))

const braces = map(after(token('{'), before(any(/[^{}]*/uy), token('}'))), inside => `{${inside}}`)

/**
 * A value in a logic tree: quoted, or a complete `{...}` (an array or range may contain commas), or up to the next
 * reserved character.
 */
const memberValue = choice(quotedValue, attempt(braces), any(/[^,)]*/uy))
const memberOperation = negatable(memberValue)
const member: Parser<LogicTree> = chain(field, target =>
  after(
    dot,
    map(memberOperation, found => ({ kind: 'filter' as const, filter: { field: target, ...found } })),
  ),
)
const groupNot = named(
  'negation operator (not)',
  choice(attempt(map(after(token('not'), dot), () => true)), always(false)),
)
const groupOperator = named(
  'logic operator (and, or)',
  choice<'and' | 'or'>(
    attempt(map(token('and'), () => 'and')),
    map(token('or'), () => 'or'),
  ),
)

const treeAt = (depth: number): Parser<LogicTree> =>
  nested(depth, maximumDepth, 'groups', () => {
    const members = after(spaced(token('(')), before(list(treeAt(depth + 1), comma), spaced(token(')'))))
    const group = chain(groupNot, negated =>
      chain(groupOperator, operator =>
        map(members, found => ({ kind: 'group' as const, operator, negated, members: found })),
      ),
    )
    return choice<LogicTree>(attempt(member), group)
  })

/** `and(...)`, `or(...)`, `not.and(...)`, `not.or(...)`, or a filter inside one of these. */
export const logicTree: Parser<LogicTree> = treeAt(0)
