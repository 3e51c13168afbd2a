/**
 * What no route serves: 404 that names the path, or 405 with Allow where the path is served by other methods. On request already,
 * so that no body is read: here nobody has shown a token.
 */
import type { FastifyRequest } from 'fastify'
import { originForm } from '../../server/origin-form.ts'
import type { App } from '../context.ts'
import { ApiError } from '../errors.ts'
import { sendError } from './errors.ts'

/** How much of a path an answer repeats. */
const longestShown = 200

const pathOf = (url: string): string => url.split(/[?#]/, 1)[0] ?? ''

/** As the router reads it, to which `%62` is a b, and `%2F` no slash. */
function decoded(path: string): string {
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}

/** Finds the methods that a path is served by; undefined where it is no path of ours. */
export type MethodsOf = (url: string) => readonly string[] | undefined

/** `:name` stands for one segment that is not empty, `*` for all the rest. */
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
  const hint = isNearly ? ': leave out the slash at its end' : ''
  return new ApiError(404, `there is nothing at this path: ${path.slice(0, longestShown)}${hint}`)
}

const notAllowed = (methods: readonly string[]): ApiError => {
  const allow = methods.join(', ')
  return new ApiError(405, `the path takes ${allow} only`, { headers: { Allow: allow } })
}

/** The refusal of a request that no route serves, or whose route has nothing to serve. */
export function refusalOf(method: string, target: string, methodsOf: MethodsOf): ApiError {
  const url = originForm(target)
  const methods = methodsOf(url)
  return methods === undefined || methods.includes(method) ? nothingAt(url, methodsOf) : notAllowed(methods)
}

/** An empty segment is no id, though the router would take it for one. */
const hasEmptySegment = ({ url, routeOptions }: FastifyRequest): boolean =>
  routeOptions.url?.includes(':') === true && pathOf(url).slice(1).split('/').includes('')

/** Watches routes being added from now on, and refuses what none of them serves. */
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
