/**
 * Answers requests without a route: 404 that names the path, or 405 with Allow if the path has other methods. Answers
 * in onRequest, so that the API reads no body of an unauthenticated client.
 */
import type { FastifyRequest } from 'fastify'
import { originForm } from '../../server/origin-form.ts'
import type { App } from '../context.ts'
import { ApiError } from '../errors.ts'
import { sendError } from './errors.ts'

/** The longest part of a path that a response contains. */
const longestShown = 200

const pathOf = (url: string): string => url.split(/[?#]/, 1)[0] ?? ''

/** Decodes a path like the router: `%62` becomes a b, but `%2F` does not become a slash. */
function decoded(path: string): string {
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}

/** Finds the methods of a path; undefined for an unknown path. */
export type MethodsOf = (url: string) => readonly string[] | undefined

/** `:name` matches one segment that is not empty, and `*` matches all remaining segments. */
const patternOf = (route: string): RegExp =>
  new RegExp(
    `^${route
      .replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&')
      .replaceAll(/:[^/]+/g, '[^/]+')
      .replaceAll('*', '.*')}$`,
  )

function nothingAt(url: string, methodsOf: MethodsOf): ApiError {
  const path = pathOf(url)
  const trimmed = path.replace(/\/+$/, '')
  const isNearly = trimmed !== path && methodsOf(trimmed) !== undefined
  const hint = isNearly ? ': remove the trailing slash' : ''
  return new ApiError(404, `unknown path: ${path.slice(0, longestShown)}${hint}`)
}

const notAllowed = (methods: readonly string[]): ApiError => {
  const allow = methods.join(', ')
  return new ApiError(405, `the path accepts only ${allow}`, { headers: { Allow: allow } })
}

/** Returns the error for a request without a route, or whose route has nothing to serve. */
export function refusalOf(method: string, target: string, methodsOf: MethodsOf): ApiError {
  const url = originForm(target)
  const methods = methodsOf(url)
  return methods === undefined || methods.includes(method) ? nothingAt(url, methodsOf) : notAllowed(methods)
}

/** An empty segment is not an id, although the router would accept it. */
const hasEmptySegment = ({ url, routeOptions }: FastifyRequest): boolean =>
  routeOptions.url?.includes(':') === true && pathOf(url).slice(1).split('/').includes('')

/** Observes the routes that are added from now on, and refuses requests for all other paths. */
export function refuseOthers(app: App): MethodsOf {
  const seen = new Map<string, { pattern: RegExp; methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    const known = seen.get(url) ?? { pattern: patternOf(url), methods: new Set() }
    for (const name of [method].flat()) known.methods.add(name)
    seen.set(url, known)
  })
  const methodsOf: MethodsOf = url => {
    const path = decoded(pathOf(url))
    const served = seen.values().filter(({ pattern }) => pattern.test(path))
    const methods = new Set(served.flatMap(route => route.methods))
    return methods.size === 0 ? undefined : [...methods]
  }
  app.setNotFoundHandler((request, reply) =>
    sendError(refusalOf(request.method, request.url, methodsOf), request, reply),
  )
  app.addHook('onRequest', (request, _reply, done) => {
    done(request.is404 || hasEmptySegment(request) ? refusalOf(request.method, request.url, methodsOf) : undefined)
  })
  return methodsOf
}
