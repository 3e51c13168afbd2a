/** Generates query strings for a relation: filters, logic, select with embeddings, order and ranges. Most are valid. */
import type { Random } from './random.ts'
import { type Relation, relations } from './resources.ts'
import { value } from './values.ts'

export type Parameter = readonly [name: string, value: string]

const comparisons = 'eq neq gt gte lt lte eq eq'
const suited: Readonly<Record<string, string>> = {
  text: `${comparisons} like ilike match imatch in is isdistinct fts`,
  json: 'eq cs cd is in',
  ints: 'eq cs cd ov is',
  texts: 'eq cs cd ov is',
  range: 'eq cs cd ov sl sr nxr nxl adj is',
  ranges: 'eq cs cd ov sl sr nxr nxl adj',
  period: 'eq cs ov sl sr adj',
  days: 'eq cs cd ov sl sr nxr nxl adj is',
  spans: 'eq cs cd ov is',
  pairs: 'eq cs ov is',
  stamps: 'eq cs ov lt is',
  search: 'fts plfts phfts wfts is',
  bool: 'is eq is',
}
const every =
  'eq neq gt gte lt lte like ilike match imatch in is isdistinct fts plfts phfts wfts cs cd ov sl sr nxr nxl adj'
const wrongOperators = [
  '',
  'nonsense',
  'eqq',
  'EQ',
  'not',
  'in',
  'is',
  'not.not.eq',
  'eq(none)',
  'fts()',
  'fts(',
  'eq(any',
  '.',
  'like(any',
  'ov(all)',
  'in(any)',
  'n',
  'not.',
  'a',
  'neq(any)',
]

function quotedForList(random: Random, text: string): string {
  return /[,()"\\]/.test(text) && random.percent(80) ? `"${text.replace(/["\\]/g, '\\$&')}"` : text
}

function operand(random: Random, operator: string, type: string): string {
  switch (operator) {
    case 'in': {
      const list = random.list(0, 3, () => quotedForList(random, value(random, type)))
      return random.percent(4)
        ? random.pick(['', '(', '1,2', '(1', '()x', '(")', '(a"b,c)', '("a"b,c)', '(,)', '(1,)', '( 1 , 2 )'])
        : `(${list.join(',')})`
    }
    case 'is':
      return random.percent(92)
        ? random.word('null true false unknown null not_null NULL True')
        : random.pick(['nul', '', 'nullx', '1', 'null '])
    default:
      if (/^(fts|plfts|phfts|wfts)/.test(operator)) return value(random, 'search')
      if (/\((any|all)\)$/.test(operator))
        return random.percent(85) ? `{${random.list(0, 2, () => value(random, type)).join(',')}}` : value(random, type)
      return value(random, type)
  }
}

function operation(random: Random, type: string): string {
  if (random.percent(3)) return `${random.pick(wrongOperators)}.${value(random, type)}`
  if (random.percent(1)) return value(random, type)
  let operator = random.word(
    random.percent(85) ? (suited[type] ?? (type in suited ? comparisons : `${comparisons} in is`)) : every,
  )
  // 12.0.2 supports full-text search only in text and tsvector.
  if (/fts$/.test(operator) && type !== 'text' && type !== 'search') operator = 'eq'
  // 12.0.2 supports no lists for a domain with conversions.
  if (type !== 'code' && /^(eq|gte|gt|lte|lt|like|ilike|match|imatch)$/.test(operator) && random.percent(8))
    operator += random.word('(any) (all)')
  if (/fts$/.test(operator) && random.percent(25)) operator += random.word('(english) (simple) (nowhere) (german)')
  return `${random.percent(15) ? 'not.' : ''}${operator}.${operand(random, operator, type)}`
}

/** A column's name in a query string, sometimes with a JSON path. */
function field(random: Random, relation: Relation): readonly [string, string] {
  if (random.percent(3))
    return [
      random.pick(['nowhere', '*', 'a b', '"id"', 'id ', ' id', 'Id', 'count', '1', 'é', 'id-', 'id->', '-', 'id.x']),
      'scalar',
    ]
  const [name, type] = random.pick(relation.columns)
  if ((type === 'json' && random.percent(60)) || (type !== 'code' && random.percent(2))) {
    const steps = random.list(
      0,
      2,
      () => `->${random.pick(['a', 'b', '0', '-1', '1', 'c', 'k y', '"k y"', 'x.y', 'ä'])}`,
    )
    return random.percent(70)
      ? [
          `${name}${steps.join('')}->>${random.pick(['a', 'b', '0', 'c', 'k y'])}`,
          steps.join().includes('.') ? 'scalar' : 'text',
        ]
      : [`${name}${steps.join('')}`, steps.length === 0 ? type : 'json']
  }
  return [name, type]
}

function inLogic(text: string): string {
  const dot = text.lastIndexOf('.')
  const last = text.slice(dot + 1)
  return /[,()]/.test(last) && !/^[({].*[)}]$/.test(last)
    ? `${text.slice(0, dot + 1)}"${last.replace(/["\\]/g, '\\$&')}"`
    : text
}

function logicMembers(random: Random, relation: Relation, depth: number): string {
  const members = random.list(1, 3, () => {
    if (depth < 2 && random.percent(20))
      return `${random.percent(25) ? 'not.' : ''}${random.word('and or')}${logicMembers(random, relation, depth + 1)}`
    const [name, type] = field(random, relation)
    return `${name}.${random.percent(90) ? inLogic(operation(random, type)) : operation(random, type)}`
  })
  const spaced = random.percent(5) ? ', ' : ','
  return random.percent(3)
    ? random.pick([
        '',
        '(',
        ')',
        `(${members.join(spaced)}`,
        `${members.join(spaced)})`,
        '()',
        '(,)',
        `(${members.join(spaced)},)`,
      ])
    : `(${members.join(spaced)})`
}

function column(random: Random, relation: Relation): string {
  const [name] = field(random, relation)
  let text = name
  if (random.percent(10)) text = `${random.pick(['alias', 'x', 'a b', '"q"', 'own', 'ä'])}:${text}`
  if (random.percent(10))
    text += `::${random.pick(['text', 'int', 'json', 'int[]', 'numeric', 'nonsense', 'double precision', 'TEXT', 'character varying', ''])}`
  if (random.percent(5))
    text += `.${random.pick(['sum()', 'count()', 'max()', 'min()', 'avg()', 'avg()::int', 'sum', 'median()', 'count()::text'])}`
  return text
}

type Embedded = { readonly path: string; readonly relation: Relation }
/** The names of relations and aliases that a level embeds. 12.0.2 fails if a name occurs twice. */
type Names = Set<string>

/** The text of a select, and its embeddings. */
function select(random: Random, relation: Relation, depth: number, found: Embedded[], path: string): string {
  const isGrouped = random.percent(7)
  const used: Names = new Set()
  const items = random.list(1, 3, () => {
    if (depth < 3 && relation.embeddings.length > 0 && random.percent(45))
      return embedding(random, relation, depth, found, path, used) ?? column(random, relation)
    if (random.percent(12)) return '*'
    if (isGrouped) {
      const [name] = field(random, relation)
      return random.percent(60)
        ? random.pick([
            'count()',
            `${name}.max()`,
            `${name}.count()`,
            `n:${name}.sum()`,
            'c:count()',
            `${name}::text.min()`,
            `${name}.sum()::text`,
          ])
        : column(random, relation)
    }
    return column(random, relation)
  })
  const text = items.join(',')
  return random.percent(1) ? text + random.pick([',', ')', '(', ' ', '!', ':', '()', ',,', '.', '::']) : text
}

/**
 * Embeddings that most relations do not have, or that have an invalid hint. Each has the relation to which it may
 * belong.
 */
const misnamed: Relation['embeddings'] = [
  ['nowhere', 'clients'],
  ['clients', 'clients'],
  ['people!nowhere', 'people'],
  ['projects!inner!left', 'projects'],
]

/** Undefined if the level already has an embedding with that name. */
function embedding(
  random: Random,
  relation: Relation,
  depth: number,
  found: Embedded[],
  path: string,
  used: Names,
): string | undefined {
  const [text, targetName] = random.percent(97) ? random.pick(relation.embeddings) : random.pick(misnamed)
  const target = relations[targetName] ?? { columns: [['id', 'int']], embeddings: [] }
  const [bare = ''] = text.split('!')
  // 12.0.2 does not support to-many spreads.
  const isSpread =
    random.percent(15) &&
    relation.toMany?.includes(text) !== true &&
    relation.embeddings.some(([known]) => known === text)
  const alias = random.percent(15) && !isSpread ? random.pick(['it', 'other one', bare, 'id', 'É']) : undefined
  const own = `${path}${path === '' ? '' : '.'}${alias ?? bare}`
  if (used.has(bare) || used.has(alias ?? bare)) return undefined
  used.add(bare).add(alias ?? bare)
  found.push({ path: own, relation: target })
  const join = random.percent(15) ? '!inner' : random.percent(6) ? '!left' : ''
  // 12.0.2 fails if a nested embedding, or a spread, has no columns.
  const inner = depth === 0 && !isSpread && random.percent(6) ? '' : select(random, target, depth + 1, found, own)
  return `${isSpread ? '...' : ''}${alias === undefined ? '' : `${alias}:`}${text}${join}(${inner})`
}

function order(random: Random, relation: Relation, embedded: readonly Embedded[]): string {
  const terms = random.list(1, 2, () => {
    const top = embedded.filter(({ path }) => !path.includes('.'))
    const inside = top.length > 0 && random.percent(25) ? random.pick(top) : undefined
    // 12.0.2 supports no JSON paths in an order by an embedding.
    const [name] = inside === undefined ? field(random, relation) : random.pick(inside.relation.columns)
    const shown = inside === undefined ? name : `${inside.path}(${name})`
    return (
      shown +
      random.pick([
        '',
        '',
        '.asc',
        '.desc',
        '.desc.nullslast',
        '.nullsfirst',
        '.asc.nullsfirst',
        '.nullslast',
        '.asc.nullslast',
      ])
    )
  })
  return random.percent(3)
    ? random.pick([
        '',
        'id.',
        'id.up',
        'id.desc.nulls',
        'id..asc',
        ',',
        'id,',
        'id.asc.desc',
        '(id)',
        'id.nullsfirst.asc',
        'clients(id',
      ])
    : terms.join(',')
}

const number = (random: Random): string =>
  random.percent(90)
    ? random.word('0 1 2 3 10')
    : random.pick(['-1', 'x', '', '1.5', '9223372036854775808', '+1', ' 1', '1 ', '2147483648'])

/** Columns that occur in most relations, for orders. */
const totalOrder = ({ columns }: Relation): string =>
  columns
    .slice(0, 2)
    .map(([name]) => name)
    .join()

/** The parameters of a read of a relation. A page mostly has an order. Writes have no order. */
export function parameters(random: Random, relation: Relation, isWrite = false): Parameter[] {
  const list: Parameter[] = []
  const embedded: Embedded[] = []
  if (random.percent(60)) list.push(['select', select(random, relation, 0, embedded, '')])
  const at = (share: number): { prefix: string; relation: Relation } => {
    if (embedded.length === 0 || !random.percent(share))
      return { prefix: random.percent(1) ? 'nowhere.' : '', relation }
    const { path, relation: target } = random.pick(embedded)
    return { prefix: `${path}.`, relation: target }
  }
  for (const _ of random.list(0, 2, () => 0)) {
    const { prefix, relation: target } = at(40)
    if (random.percent(25)) {
      list.push([
        `${prefix}${random.percent(20) ? 'not.' : ''}${random.word('and or')}`,
        logicMembers(random, target, 0),
      ])
    } else if (embedded.length > 0 && random.percent(15)) {
      list.push([random.pick(embedded).path, random.pick(['is.null', 'not.is.null', 'eq.1', 'not.is.null', 'is.true'])])
    } else {
      const [name, type] = field(random, target)
      list.push([`${prefix}${name}`, operation(random, type)])
    }
  }
  if (random.percent(35)) {
    const { prefix, relation: target } = at(30)
    list.push([`${prefix}order`, order(random, target, prefix === '' ? embedded : [])])
  }
  for (const [name, share] of [
    ['limit', 25],
    ['offset', 20],
  ] as const) {
    if (!random.percent(share)) continue
    const { prefix } = at(45)
    // Other versions of PostgREST use it to select the written rows.
    if (!isWrite || prefix !== '' || random.percent(5)) list.push([`${prefix}${name}`, number(random)])
  }
  const names = new Set(list.map(([name]) => name))
  if (!names.has('order') && (names.has('limit') || names.has('offset')) && random.percent(75))
    list.push(['order', totalOrder(relation)])
  if (random.percent(1)) list.push(['', 'eq.1'])
  if (random.percent(1))
    list.push(
      random.pick<Parameter>([
        ['columns', 'id'],
        ['on_conflict', 'id'],
        ['order', 'id'],
        ['limit', '1'],
        ['apikey', 'x'],
        ['id', ''],
        ['a.b.c', 'eq.1'],
        ['and', ''],
      ]),
    )
  return list
}
