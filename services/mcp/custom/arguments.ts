/** The arguments of a custom tool, checked by Ajv against the JSON Schema that the tool's owner wrote. */
import { createRequire } from 'node:module'
import type { ErrorObject, Options } from 'ajv/dist/2020.js'
import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
import { ArgumentsError } from '../core/arguments.ts'

const options: Options = {
  // A name of a prototype is a name like any other.
  ownProperties: true,
  validateFormats: false,
  logger: false,
  keywords: ['$anchor', 'x-mcp-header'],
}
/** The module takes 2 MiB, which a server without custom tools does not spend. */
function load() {
  const { Ajv2020 } = createRequire(import.meta.url)('ajv/dist/2020.js') as typeof import('ajv/dist/2020.js')
  return { Ajv2020, judge: new Ajv2020(options) }
}
/** `judge` compiles the schema of schemas once. */
let loaded: ReturnType<typeof load> | undefined

/** `/names/1` as `names[1]`. */
const nameOf = (pointer: string) =>
  pointer
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
 * Compiles a schema into a check of arguments, which throws an ArgumentsError.
 * @throws Error where the schema is not valid, or has an unknown keyword
 */
export function argumentsCheck({ $schema: _, ...schema }: JsonSchema): (args: JsonObject) => void {
  loaded ??= load()
  const { Ajv2020, judge } = loaded
  judge.validateSchema(schema, true)
  // An instance of its own: an instance keeps its schemas, and finds them by their $id.
  const isValid = new Ajv2020({ ...options, validateSchema: false }).compile(schema)
  return args => {
    if (isValid(args)) return
    const errors = isValid.errors ?? []
    // The last one is of the keyword around the others, such as anyOf.
    const isShape = shapeKeywords.has(errors.at(-1)?.keyword ?? '')
    throw new ArgumentsError([...new Set(errors.map(problemOf))].join('; '), isShape)
  }
}
