/** By which names a query string can speak of what is embedded. */
import { expect, test } from 'vitest'
import type { SelectRelation } from '../parse/types.ts'
import { refusal } from '../testing/parsing.ts'
import { planned } from '../testing/schema-cache.ts'
import { pathNames } from './paths.ts'

const embedding = (name: string, alias?: string): SelectRelation => ({
  ...{ kind: 'relation', name, alias, hint: undefined, join: undefined, spread: false, select: [] },
})

test.each<[string, SelectRelation[], string[][]]>([
  ['its name', [embedding('tasks')], [['tasks']]],
  ['its alias and its name', [embedding('tasks', 't')], [['t', 'tasks']]],
  [
    'its alias alone, where two are of one relation',
    [embedding('tasks', 'a'), embedding('tasks', 'b')],
    [['a'], ['b']],
  ],
  [
    'its alias alone, where another goes by its name',
    [embedding('tasks', 't'), embedding('tasks')],
    [['t'], ['tasks']],
  ],
  [
    'its alias alone, where its name is the alias of another',
    [embedding('tasks', 't'), embedding('clients', 'tasks')],
    [['t'], ['tasks', 'clients']],
  ],
  [
    'each its own, where they have nothing to do with each other',
    [embedding('tasks', 't'), embedding('users')],
    [['t', 'tasks'], ['users']],
  ],
])('an embedding is spoken of by %s', (_, children, expected) => {
  expect(children.map(child => [...pathNames(child, children)])).toEqual(expected)
})

test('what is said of a relation that is embedded twice is of neither', () => {
  const target = 'GET /projects?select=a:tasks(id),b:tasks(id)'
  expect(refusal(() => planned(`${target}&tasks.id=eq.1`)).code).toBe('RST108')
  const plan = planned(`${target}&a.id=eq.1`)
  expect(plan.kind === 'read' && plan.read.select).toMatchObject([
    { node: { conditions: [{}] } },
    { node: { conditions: [] } },
  ])
})
