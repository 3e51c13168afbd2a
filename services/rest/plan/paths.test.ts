/** The names of embeddings in a query string. */
import { expect, test } from 'vitest'
import { refusal } from '../testing/parsing.ts'
import { planned } from '../testing/schema-cache.ts'

/** For each filter, order or limit, by key: the embeddings of the root to which it applies. */
function reached(select: string, parameters: string): string[] {
  const plan = planned(`GET /projects?select=${select}&${parameters}`)
  const embeddings = plan.kind === 'read' ? plan.read.select.filter(item => item.kind === 'embedded') : []
  const isReached = ({ node }: (typeof embeddings)[number]) =>
    node.conditions.length > 0 || node.range.limit !== undefined || node.order.some(({ direction }) => direction)
  return embeddings.filter(isReached).map(({ name }) => name)
}

const byName = 'a:tasks(id),b:tasks(id)'
// PostgREST 12.0.2 gives the same results, except for one relation that is embedded with and without an alias.
test.each([
  ['its name', 'tasks(id)', 'tasks.id=eq.1', ['tasks']],
  ['its alias', 't:tasks(id)', 't.id=eq.1', ['t']],
  ['the name of its relation, although it has an alias', 't:tasks(id)', 'tasks.id=eq.1', ['t']],
  ['the name of a relation that is embedded twice: selects the first', byName, 'tasks.id=eq.1', ['a']],
  ['that name in an order', byName, 'tasks.order=id.desc', ['a']],
  ['that name in a limit', byName, 'tasks.limit=1', ['a']],
  ['that name in a logic tree', byName, 'tasks.or=(id.eq.1)', ['a']],
  [
    'that name, after another path has moved the second embedding to the front',
    byName,
    'b.order=id.desc&tasks.limit=1',
    ['b'],
  ],
  ['that name, before another path selects the second embedding', byName, 'tasks.order=id.desc&b.limit=1', ['a', 'b']],
  ['its name, although an embedding with an alias precedes it', 't:tasks(id),tasks(id)', 'tasks.id=eq.1', ['tasks']],
  ['an alias that is the name of another embedding', 't:tasks(id),tasks:clients(id)', 'tasks.id=eq.1', ['tasks']],
])('an embedding is selected by %s', (_, select, parameters, expected) => {
  expect(reached(select, parameters)).toEqual(expected)
})

test('a path continues in the embedding that its first step selects', () => {
  const select = 'GET /projects?select=a:tasks(projects(id)),b:tasks(id)'
  expect(planned(`${select}&tasks.projects.id=eq.1`).kind).toBe('read')
  expect(refusal(() => planned(`${select}&b.limit=1&tasks.or=(id.eq.1)&tasks.projects.or=(id.eq.1)`)).code).toBe(
    'RST108',
  )
})
