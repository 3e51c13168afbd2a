/** Checks a custom tool's arguments with Ajv against the JSON Schema from the custom definitions. */
import { createRequire } from 'node:module'
import { createContext, Script } from 'node:vm'
import type { ErrorObject, Options } from 'ajv/dist/2020.js'
import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
import { ArgumentsError } from '../core/arguments.ts'
import { linearKeywords } from './keywords.ts'

/** A check blocks the event loop, so its time is limited. */
const longestCheckMs = 1_000
const mostProblems = 20
const longestName = 200

const options: Options = {
  // Names of prototype properties are ordinary argument names.
  ownProperties: true,
  validateFormats: false,
  // Accepts valid keywords that have no effect, such as `if` alone.
  strictSchema: 'log',
  logger: {
    log: () => {},
    warn: (message: string) => {
      if (message.startsWith('strict mode: unknown keyword')) throw new Error(message)
    },
    error: () => {},
  },
  allowMatchingProperties: true,
  keywords: ['$anchor', 'x-mcp-header'],
}
/** Loads Ajv only for custom tools, because the module takes 2 MiB. */
function load() {
  const { Ajv2020, _, str } = createRequire(import.meta.url)('ajv/dist/2020.js') as typeof import('ajv/dist/2020.js')
  const keywords = linearKeywords({ _, str })
  return { Ajv2020, keywords, metaSchema: new Ajv2020(options), within: timeLimit() }
}

/** A pattern or a recursive schema can take exponential time, and only `vm` can stop such a check. */
function timeLimit(): (run: () => boolean, timeout: number) => boolean {
  const box: { run?: () => boolean } = {}
  const context = createContext(box)
  const script = new Script('run()')
  return (run, timeout) => {
    box.run = run
    try {
      return script.runInContext(context, { timeout, displayErrors: false })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error
      throw new ArgumentsError(
        `the arguments take longer than ${timeout} ms to check: send fewer or shorter ones`,
        false,
      )
    } finally {
      delete box.run
    }
  }
}

/** `metaSchema` validates schemas. It compiles the meta-schema once. */
let loaded: ReturnType<typeof load> | undefined

/** Converts `/names/1` to `names[1]`. */
const nameOf = (pointer: string) =>
  (pointer.length > longestName ? `${pointer.slice(0, longestName).toWellFormed()}…` : pointer)
    .replace(/\/(\d+)(?=\/|$)/g, '[$1]')
    .replaceAll('/', '.')
    .replace(/^\./, '')

function problemOf({ instancePath, keyword, params, message }: ErrorObject): string {
  switch (keyword) {
    case 'required':
      return `${nameOf(`${instancePath}/${params.missingProperty}`)} is required`
    case 'additionalProperties':
      return `${nameOf(`${instancePath}/${params.additionalProperty}`)} is unknown`
    case 'enum':
      return `${nameOf(instancePath)} must be one of ${JSON.stringify(params.allowedValues).slice(1, -1)}`
    default:
      return `${nameOf(instancePath) || 'the arguments'} ${message}`
  }
}

const shapeKeywords = new Set(['type', 'required', 'additionalProperties', 'false schema'])

/**
 * Compiles a schema into a check that throws an ArgumentsError for invalid arguments.
 * @throws Error if the schema is invalid, or has an unknown keyword
 */
export function argumentsCheck(
  { $schema: _, ...schema }: JsonSchema,
  timeoutMs = longestCheckMs,
): (args: JsonObject) => void {
  loaded ??= load()
  const { Ajv2020, keywords, metaSchema, within } = loaded
  metaSchema.validateSchema(schema, true)
  // Each tool has its own instance, because an instance finds its schemas by their $id.
  const ajv = new Ajv2020({ ...options, validateSchema: false })
  for (const keyword of keywords) ajv.removeKeyword(String(keyword.keyword)).addKeyword(keyword)
  const isValid = ajv.compile(schema)
  return args => {
    if (within(() => isValid(args), timeoutMs)) return
    const errors = isValid.errors ?? []
    // The last error belongs to the enclosing keyword, such as anyOf.
    const last = errors.slice(-1)
    const isShape = shapeKeywords.has(last[0]?.keyword ?? '')
    const shown = [...errors.slice(0, Math.min(errors.length - 1, mostProblems)), ...last]
    throw new ArgumentsError([...new Set(shown.map(problemOf))].join('; '), isShape)
  }
}
