/** Which route answers a request, by its path and method. A service renders what no route answers in its own words. */

/** The values of the parts of the path that a route names as `{name}`. */
export type PathParameters = { readonly [name: string]: string }

type Match<Route> =
  | { readonly kind: 'route'; readonly route: Route; readonly parameters: PathParameters }
  | { readonly kind: 'other method'; readonly allowed: readonly string[] }
  | { readonly kind: 'nothing' }

type RouteKey = {
  readonly method: string
  /** As `/api/llm/chat`; a part such as `{id}` stands for any one part. */
  readonly path: string
}

/** Longer ones fit no route. */
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

/** A route for GET that answers HEAD as well. */
export const getRoutes = <Answer>(path: string, answer: Answer) => [
  { method: 'GET', path, answer },
  { method: 'HEAD', path, answer },
]
