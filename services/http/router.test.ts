import { describe, expect, test } from 'vitest'
import { getRoutes, matchRoute } from './router.ts'

const routes = [
  ...getRoutes('/health', 'health'),
  { method: 'POST', path: '/notes', answer: 'create' },
  { method: 'GET', path: '/notes/{id}', answer: 'read' },
  { method: 'DELETE', path: '/notes/{id}', answer: 'delete' },
]

const answerOf = (method: string, path: string) => {
  const match = matchRoute(routes, { method, path })
  return match.kind === 'route' ? [match.route.answer, match.parameters] : match
}

describe('a request', () => {
  test.each([
    ['GET', '/health', 'health', {}],
    ['HEAD', '/health', 'health', {}],
    ['DELETE', '/notes/a%2Fb', 'delete', { id: 'a/b' }],
  ])('%s %s is answered by the route of its path and method', (method, path, answer, parameters) => {
    expect(answerOf(method, path)).toEqual([answer, parameters])
  })

  test('with a method that has no route gets the allowed methods', () => {
    expect(answerOf('PUT', '/notes/1')).toEqual({ kind: 'other method', allowed: ['GET', 'DELETE'] })
  })

  test.each(['/', '/notes/', '/notes/1/2', '/notes/%', `/notes/${'x'.repeat(201)}`, '/notes/{id}/x', '/health/'])(
    'at %s has no route',
    path => {
      expect(answerOf('GET', path)).toEqual({ kind: 'nothing' })
    },
  )
})
