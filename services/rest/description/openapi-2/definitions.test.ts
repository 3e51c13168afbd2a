import { describe, expect, test } from 'vitest'
import { at, column, keys, relationships, rendered, table, toOne } from '../../testing/openapi.ts'

describe('a foreign key', () => {
  const owner = column('owner', 'integer')
  const described = (...list: Parameters<typeof relationships>) =>
    at(
      rendered({ tables: [table('things', [owner])], cache: relationships(...list) }),
      'definitions',
      'things',
      'properties',
      'owner',
      'description',
    )
  const note = (target: string) =>
    `Note:\nThis is a Foreign Key to \`${target}.id\`.<fk table='${target}' column='id'/>`
  const columns: [string, string][] = [['owner', 'id']]
  const people = toOne('things', 'people', columns)

  test('refers to a table rather than a view, and to the first of several targets', () => {
    const view = { ...toOne('things', 'a_view', columns), targetIsView: true }
    expect(described(view, people, toOne('things', 'later', columns))).toBe(note('people'))
    expect(described(view)).toBe(note('a_view'))
  })

  test('of a one-to-one relationship is on the referencing side', () => {
    const oneToOne = (referenced: boolean) =>
      keys('things', 'people', { kind: 'one-to-one', constraint: 'c', columns, referenced })
    expect(described(oneToOne(false))).toBe(note('people'))
    expect(described(oneToOne(true))).toBeUndefined()
  })

  test('is not described if it has several columns, another schema, the other direction or a junction', () => {
    const elsewhere = { ...people, target: { schema: 'private', name: 'people' } }
    const junction = {
      table: people.target,
      sourceConstraint: 'a',
      targetConstraint: 'b',
      sourceColumns: columns,
      targetColumns: columns,
    }
    expect(described(toOne('things', 'people', [...columns, ['other', 'id']]))).toBeUndefined()
    expect(described(elsewhere)).toBeUndefined()
    expect(described(keys('things', 'people', { kind: 'one-to-many', constraint: 'c', columns }))).toBeUndefined()
    expect(described(keys('things', 'people', { kind: 'many-to-many', junction }))).toBeUndefined()
  })
})
