/** Finds a request's route by path and method. If there is no route, the service formats the response. */

/** The values of path parameters, by name. `{name}` in a route's path declares a parameter. */
export type PathParameters = { readonly [name: string]: string }

type Match<Route> =
  | { readonly kind: 'route'; readonly route: Route; readonly parameters: PathParameters }
  | { readonly kind: 'other method'; readonly allowed: readonly string[] }
  | { readonly kind: 'nothing' }

type RouteKey = {
  readonly method: string
  /** Such as `/api/llm/chat`. A segment such as `{id}` matches any one segment. */
  readonly path: string
}

/** The maximum length of a path parameter, percent-encoded. A longer parameter matches no route. */
const longestPart = 200

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined
  }
}

function parametersOf(template: string, path: string): PathParameters | undefined {
  if (template === path && !template.includes('{')) return {}
  const [wanted, parts] = [template.split('/'), path.split('/')]
  if (wanted.length !== parts.length) return undefined
  const parameters = new Map<string, string>()
  for (const [index, part] of wanted.entries()) {
    const actual = parts[index] ?? ''
    const name = /^\{(\w+)\}$/.exec(part)?.[1]
    if (name === undefined) {
      if (actual !== part) return undefined
      continue
    }
    const value = actual.length <= longestPart ? decoded(actual) : undefined
    if (value === undefined || value === '') return undefined
    parameters.set(name, value)
  }
  return Object.fromEntries(parameters)
}

export function matchRoute<Route extends RouteKey>(
  routes: readonly Route[],
  { method, path }: { readonly method: string; readonly path: string },
): Match<Route> {
  const fitting = routes.flatMap(route => {
    const parameters = parametersOf(route.path, path)
    return parameters === undefined ? [] : [{ route, parameters }]
  })
  const found = fitting.find(({ route }) => route.method === method)
  if (found !== undefined) return { kind: 'route', ...found }
  if (fitting.length === 0) return { kind: 'nothing' }
  return { kind: 'other method', allowed: fitting.map(({ route }) => route.method) }
}

/** A GET route that also answers HEAD. */
export const getRoutes = <Answer>(path: string, answer: Answer) => [
  { method: 'GET', path, answer },
  { method: 'HEAD', path, answer },
]
