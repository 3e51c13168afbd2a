/** By which names a query string can speak of what is embedded. */
import { expect, test } from 'vitest'
import { refusal } from '../testing/parsing.ts'
import { planned } from '../testing/schema-cache.ts'

/** Which embeddings of the root each filter, order or limit has reached: their keys. */
function reached(select: string, said: string): string[] {
  const plan = planned(`GET /projects?select=${select}&${said}`)
  const embeddings = plan.kind === 'read' ? plan.read.select.filter(item => item.kind === 'embedded') : []
  const isReached = ({ node }: (typeof embeddings)[number]) =>
    node.conditions.length > 0 || node.range.limit !== undefined || node.order.some(({ direction }) => direction)
  return embeddings.filter(isReached).map(({ name }) => name)
}

const byName = 'a:tasks(id),b:tasks(id)'
// PostgREST 12.0.2 gives the same, but for the cases of one relation with an alias and without.
test.each([
  ['its name', 'tasks(id)', 'tasks.id=eq.1', ['tasks']],
  ['its alias', 't:tasks(id)', 't.id=eq.1', ['t']],
  ['the name of its relation, too', 't:tasks(id)', 'tasks.id=eq.1', ['t']],
  ['the name of a relation that is embedded twice: the first', byName, 'tasks.id=eq.1', ['a']],
  ['that name in an order', byName, 'tasks.order=id.desc', ['a']],
  ['that name in a limit', byName, 'tasks.limit=1', ['a']],
  ['that name in a logic tree', byName, 'tasks.or=(id.eq.1)', ['a']],
  ['that name, after another path has moved the second to the front', byName, 'b.order=id.desc&tasks.limit=1', ['b']],
  ['that name, before another path comes to the second', byName, 'tasks.order=id.desc&b.limit=1', ['a', 'b']],
  ['its name, although one with an alias stands before', 't:tasks(id),tasks(id)', 'tasks.id=eq.1', ['tasks']],
  ['an alias that is the name of another', 't:tasks(id),tasks:clients(id)', 'tasks.id=eq.1', ['tasks']],
])('an embedding is meant by %s', (_, select, said, expected) => {
  expect(reached(select, said)).toEqual(expected)
})

test('a path goes on in the embedding that its first step means', () => {
  const select = 'GET /projects?select=a:tasks(projects(id)),b:tasks(id)'
  expect(planned(`${select}&tasks.projects.id=eq.1`).kind).toBe('read')
  expect(refusal(() => planned(`${select}&b.limit=1&tasks.or=(id.eq.1)&tasks.projects.or=(id.eq.1)`)).code).toBe(
    'RST108',
  )
})
