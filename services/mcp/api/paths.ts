/** Which route a path is of, and what stands where the route has a name. Pure. */
import type { ApiRoute } from './route.ts'

type Matched =
  | { readonly kind: 'route'; readonly route: ApiRoute; readonly parameters: { readonly [name: string]: string } }
  | { readonly kind: 'other method'; readonly allowed: readonly ApiRoute['method'][] }
  | { readonly kind: 'nothing' }

const longestPart = 200

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined
  }
}

function parametersOf(template: string, path: string): { readonly [name: string]: string } | undefined {
  const [wanted, parts] = [template.split('/'), path.split('/')]
  if (wanted.length !== parts.length) return undefined
  const parameters = new Map<string, string>()
  for (const [index, part] of wanted.entries()) {
    const given = parts[index] ?? ''
    const name = /^\{(\w+)\}$/.exec(part)?.[1]
    if (name === undefined) {
      if (given !== part) return undefined
      continue
    }
    const value = given.length <= longestPart ? decoded(given) : undefined
    if (value === undefined || value === '') return undefined
    parameters.set(name, value)
  }
  return Object.fromEntries(parameters)
}

export function matchRoute(routes: readonly ApiRoute[], method: string, path: string): Matched {
  const fitting = routes.flatMap(route => {
    const parameters = parametersOf(route.path, path)
    return parameters === undefined ? [] : [{ route, parameters }]
  })
  const found = fitting.find(({ route }) => route.method === method)
  if (found !== undefined) return { kind: 'route', ...found }
  if (fitting.length === 0) return { kind: 'nothing' }
  return { kind: 'other method', allowed: fitting.map(({ route }) => route.method) }
}
