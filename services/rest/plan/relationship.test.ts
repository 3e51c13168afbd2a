import { describe, expect, test } from 'vitest'
import type { Relationship } from '../../schema-cache/types.ts'
import { keys, toOne } from '../testing/openapi.ts'
import { refusal } from '../testing/parsing.ts'
import { cacheOf, own } from '../testing/schema-cache.ts'
import { findRelationship, isToOne } from './relationship.ts'

/**
 * Orders have two addresses. People have managers, who are people, too. Films and actors have the junctions roles and
 * cameos.
 */
const billing = keys('orders', 'addresses', {
  ...{ kind: 'many-to-one', constraint: 'orders_billing', columns: [['billing_id', 'id']] },
})
const shipping = keys('orders', 'addresses', {
  ...{ kind: 'many-to-one', constraint: 'orders_shipping', columns: [['shipping_id', 'id']] },
})
const inverse = (constraint: string, column: string) =>
  keys('addresses', 'orders', { kind: 'one-to-many', constraint, columns: [['id', column]] })
const manager = keys('people', 'people', {
  ...{ kind: 'many-to-one', constraint: 'people_manager', columns: [['manager_id', 'id']] },
})
const reports = keys('people', 'people', {
  ...{ kind: 'one-to-many', constraint: 'people_manager', columns: [['id', 'manager_id']] },
})
const passport = (referenced: boolean) =>
  keys(referenced ? 'people' : 'passports', referenced ? 'passports' : 'people', {
    ...{ kind: 'one-to-one', constraint: 'passports_person', referenced },
    columns: referenced ? [['id', 'person_id']] : [['person_id', 'id']],
  })
const through = (table: string, schema = 'test') =>
  keys('films', 'actors', {
    kind: 'many-to-many',
    junction: {
      table: { schema, name: table },
      ...{ sourceConstraint: `${table}_film`, targetConstraint: `${table}_actor` },
      ...{ sourceColumns: [['id', 'film_id']], targetColumns: [['id', 'actor_id']] },
    },
  })
const computed = (name: string, target: string, toOneRow = true): Relationship => ({
  ...{ kind: 'computed', function: own(name), toOne: toOneRow, self: false },
  ...{ source: own('films'), target: own(target) },
})
const composite = keys('lines', 'orders', {
  ...{
    kind: 'many-to-one',
    constraint: 'lines_order',
    columns: [
      ['a', 'a'],
      ['b', 'b'],
    ],
  },
})
const toView: Relationship = {
  ...keys('orders', 'addresses_view', {
    kind: 'many-to-one',
    constraint: 'orders_billing',
    columns: [['billing_id', 'id']],
  }),
  ...{ kind: 'keys', targetIsView: true },
} as Relationship // The helper returns the union.

const elsewhere: Relationship = {
  ...toOne('films', 'studios', [['studio_id', 'id']]),
  target: { schema: 'other', name: 'studios' },
}
const all = [
  ...[billing, shipping, inverse('orders_billing', 'billing_id'), inverse('orders_shipping', 'shipping_id')],
  ...[
    manager,
    reports,
    passport(true),
    passport(false),
    through('roles'),
    through('cameos'),
    through('hidden', 'private'),
  ],
  ...[computed('lead', 'actors'), computed('directors', 'people', false), composite, toView, elsewhere],
]
const cache = cacheOf({ relationships: all })
const find = (source: string, target: string, hint?: string) => findRelationship(cache, own(source), target, hint)
const refused = (source: string, target: string, hint?: string) => refusal(() => find(source, target, hint))

describe('an embedding selects', () => {
  test.each<[string, string, string | undefined, Relationship]>([
    ['orders', 'addresses', 'orders_billing', billing],
    ['orders', 'addresses', 'shipping_id', shipping],
    ['orders', 'orders_shipping', undefined, shipping],
    ['orders', 'billing_id', undefined, billing],
    ['orders', 'addresses_view', undefined, toView],
    ['passports', 'people', 'id', passport(false)],
    ['addresses', 'orders', 'shipping_id', inverse('orders_shipping', 'shipping_id')],
    ['addresses', 'orders', 'orders_billing', inverse('orders_billing', 'billing_id')],
    ['addresses', 'orders_billing', undefined, inverse('orders_billing', 'billing_id')],
    ['people', 'people', undefined, reports],
    ['people', 'people', 'manager_id', reports],
    ['people', 'people', 'people_manager', reports],
    ['people', 'manager_id', undefined, manager],
    ['people', 'people_manager', undefined, manager],
    ['people', 'passports', undefined, passport(true)],
    ['people', 'passports', 'person_id', passport(true)],
    ['passports', 'people', undefined, passport(false)],
    ['passports', 'person_id', undefined, passport(false)],
    ['films', 'actors', 'roles', through('roles')],
    ['films', 'actors', 'cameos', through('cameos')],
    ['films', 'lead', undefined, computed('lead', 'actors')],
    ['films', 'directors', undefined, computed('directors', 'people', false)],
    ['lines', 'orders', undefined, composite],
    ['lines', 'orders', 'lines_order', composite],
  ])('of %s with %s by the hint %s', (source, target, hint, expected) => {
    expect(find(source, target, hint)).toEqual(expected)
  })

  test("in a one-to-one self-reference: the relation's name selects the referenced row, and the column selects the referencing row", () => {
    const spouse = (referenced: boolean) =>
      keys('people', 'people', {
        ...{ kind: 'one-to-one', constraint: 'people_spouse', referenced },
        columns: referenced ? [['id', 'spouse_id']] : [['spouse_id', 'id']],
      })
    const couple = cacheOf({ relationships: [spouse(false), spouse(true)] })
    const found = (target: string, hint?: string) => findRelationship(couple, own('people'), target, hint)
    expect(found('people')).toEqual(spouse(true))
    expect(found('people', 'spouse_id')).toEqual(spouse(true))
    expect(found('spouse_id')).toEqual(spouse(false))
    expect(found('people_spouse')).toEqual(spouse(false))
  })

  test("a function takes precedence over a foreign key to a relation with the function's name", () => {
    const both = cacheOf({ relationships: [toOne('films', 'lead', [['lead_id', 'id']]), computed('lead', 'actors')] })
    expect(findRelationship(both, own('films'), 'lead', undefined).kind).toBe('computed')
  })
})

test.each<[Relationship, boolean]>([
  [billing, true],
  [reports, false],
  [passport(true), true],
  [through('roles'), false],
  [computed('lead', 'actors'), true],
  [computed('lead', 'actors', false), false],
])('%# is to-one or to-many', (relationship, expected) => {
  expect(isToOne(relationship)).toBe(expected)
})

describe('a missing relationship gets RST200', () => {
  test.each<[string, string, string | undefined, string | null]>([
    ['orders', 'adresses', undefined, "Perhaps you meant 'addresses' instead of 'adresses'."],
    ['order', 'addresses', undefined, "Perhaps you meant 'orders' instead of 'order'."],
    ['orders', 'elephants', undefined, null],
    ['orders', 'addresses', 'nope', null],
    ['xyz', 'addresses', undefined, null],
    ['films', 'studios', undefined, null],
    ['films', 'actors', 'hidden', null],
    ['films', 'lead', 'actors', null],
    ['lines', 'a', undefined, null],
    ['lines', 'orders', 'a', null],
    ['people', 'manager_id', 'people', null],
    // Only one of the two names is similar.
    ['people', 'nobody', 'manager_id', null],
    ['people', 'people', 'nope', null],
    // Hidden relations are not suggested, either.
    ['films', 'studio', undefined, null],
    ['films', '__proto__', undefined, null],
  ])('for %s with %s by the hint %s', (source, target, hint, suggested) => {
    expect(refused(source, target, hint)).toMatchObject({
      ...{ status: 400, code: 'RST200', hint: suggested },
      message: `Could not find a relationship between '${source}' and '${target}' in the schema cache`,
      details:
        `Searched for a foreign key relationship between '${source}' and '${target}'` +
        `${hint === undefined ? '' : ` using the hint '${hint}'`} in the schema 'test', but no matches were found.`,
    })
  })
})

describe('several relationships get RST201', () => {
  test('for foreign keys', () => {
    expect(refused('orders', 'addresses')).toMatchObject({
      ...{ status: 300, code: 'RST201' },
      message: "Could not embed because more than one relationship was found for 'orders' and 'addresses'",
      hint:
        "Try changing 'addresses' to one of the following: 'addresses!orders_billing', 'addresses!orders_shipping'. " +
        "Find the desired relationship in the 'details' key.",
      details: [
        {
          cardinality: 'many-to-one',
          embedding: 'orders with addresses',
          relationship: 'orders_billing using orders(billing_id) and addresses(id)',
        },
        {
          cardinality: 'many-to-one',
          embedding: 'orders with addresses',
          relationship: 'orders_shipping using orders(shipping_id) and addresses(id)',
        },
      ],
    })
    expect(refused('addresses', 'orders').code).toBe('RST201')
  })

  test('for junctions', () => {
    expect(refused('films', 'actors')).toMatchObject({
      code: 'RST201',
      details: [
        { cardinality: 'many-to-many', relationship: 'roles using roles_film(film_id) and roles_actor(actor_id)' },
        { cardinality: 'many-to-many', relationship: 'cameos using cameos_film(film_id) and cameos_actor(actor_id)' },
      ],
      hint: expect.stringContaining("'actors!roles', 'actors!cameos'"),
    })
  })

  test('for to-many before to-one, and with all columns of a key', () => {
    const columns: [string, string][] = [
      ['a', 'x'],
      ['b', 'y'],
    ]
    const parent = keys('a', 'b', { kind: 'many-to-one', constraint: 'up', columns })
    const children = keys('a', 'b', { kind: 'one-to-many', constraint: 'down', columns })
    for (const relationships of [
      [parent, children],
      [children, parent],
    ])
      expect(refusal(() => findRelationship(cacheOf({ relationships }), own('a'), 'b', undefined))).toMatchObject({
        details: [
          { cardinality: 'one-to-many', relationship: 'down using a(a, b) and b(x, y)' },
          { cardinality: 'many-to-one', relationship: 'up using a(a, b) and b(x, y)' },
        ],
      })
  })

  test('for functions', () => {
    const overloads = cacheOf({ relationships: [computed('lead', 'actors'), computed('lead', 'people', false)] })
    expect(refusal(() => findRelationship(overloads, own('films'), 'lead', undefined))).toMatchObject({
      code: 'RST201',
      details: [{ cardinality: 'many-to-one' }, { cardinality: 'one-to-many', relationship: 'lead' }],
    })
  })
})
