/** What the configurations of services name in the database, and what of it is missing or wrong there. Pure. */
import { type ConfigurationFault, missingPgvector, type PgVersion, type ServiceConfig } from '../../crds/index.ts'
import { type Finding, no, yes } from '../objects/conditions.ts'
import { digestOf } from '../objects/up-to-date.ts'
import type { FoundReferences, References, TableReference } from '../postgres/administrator.ts'

/** More tables than these are not checked. */
const mostTables = 200
const shownFaults = 5

type RagConfig = NonNullable<ServiceConfig['rag']>
type Place = { pipeline: string; model: string; table: TableReference }

function tableOf({
  table,
  textColumn,
  vectorColumn,
}: RagConfig['pipelines'][number]['tables'][number]): TableReference {
  const [first = '', ...rest] = table.split('.')
  const named = rest.length === 0 ? { schema: undefined, name: first } : { schema: first, name: rest.join('.') }
  return { ...named, columns: [...new Set([textColumn, vectorColumn])], vectorColumn }
}

const placesOf = ({ pipelines, embeddingLlm }: RagConfig): Place[] =>
  pipelines
    .flatMap(({ name: pipeline, tables, embeddingLlm: own }) => {
      const { model } = own ?? embeddingLlm
      return tables.map(table => ({ pipeline, model, table: tableOf(table) }))
    })
    .slice(0, mostTables)

const schemasOf = ({ dbSchemas }: NonNullable<ServiceConfig['rest']>): string[] => [
  ...new Set(dbSchemas.split(',').map(name => name.trim())),
]

const partsOf = (configs: readonly ServiceConfig[]) => ({
  rest: configs.find(({ rest }) => rest !== undefined)?.rest,
  rag: configs.find(({ rag }) => rag !== undefined)?.rag,
})

/** Undefined where no service names anything. */
export function referencesOf(configs: readonly ServiceConfig[]): References | undefined {
  const { rest, rag } = partsOf(configs)
  if (rest === undefined && rag === undefined) return undefined
  const named = {
    schemas: rest === undefined ? [] : schemasOf(rest),
    tables: rag === undefined ? [] : placesOf(rag).map(({ table }) => table),
    needsVector: rag !== undefined,
  }
  return { ...named, digest: digestOf(named) }
}

/** Dimensions of the embeddings of OpenAI's models, at OpenAI's own address. */
const knownDimensions: Readonly<Record<string, number>> = {
  'text-embedding-3-small': 1536,
  'text-embedding-3-large': 3072,
  'text-embedding-ada-002': 1536,
}

type Fault = { reason: string; message: string }

type Circumstances = {
  /** What breaks a rule, whatever the database has. */
  faults: readonly ConfigurationFault[]
  pgVersion: PgVersion
  /** The major versions whose images have pgvector, as far as it is known. */
  pgvectorVersions: readonly PgVersion[]
  /** Whether the provider of embeddings is at its public address. */
  isOwnAddress: boolean
}

/** The condition ServicesConfigured. `found` undefined: the database was not asked. */
export function configuredFinding(
  configs: readonly ServiceConfig[],
  found: FoundReferences | undefined,
  circumstances: Circumstances,
): Finding | undefined {
  const { rest, rag } = partsOf(configs)
  const faults = [
    ...circumstances.faults.map(brokenRule),
    ...(rest === undefined || found === undefined ? [] : found.missingSchemas.map(unknownSchema)),
    ...(rag === undefined || found === undefined ? [] : faultsOfRag(rag, found, circumstances)),
  ]
  const [first] = faults
  if (first === undefined) return found && yes('Found', 'the schemas, tables and columns that services name exist')
  const hidden = faults.length - shownFaults
  const more = hidden > 0 ? `; and ${hidden} more` : ''
  const shown = faults.slice(0, shownFaults).map(({ message }) => message)
  return no(first.reason, `${shown.join('; ')}${more}`)
}

const brokenRule = ({ type, field, rule }: ConfigurationFault): Fault => ({
  reason: 'WrongConfiguration',
  message: `${type}: ${field} ${rule}`,
})

const unknownSchema = (name: string): Fault => ({
  reason: 'UnknownSchema',
  message: `rest: db_schemas names the schema ${name}, which does not exist: create it, or remove it from db_schemas`,
})

function faultsOfRag(rag: RagConfig, found: FoundReferences, circumstances: Circumstances): Fault[] {
  const { pgVersion, pgvectorVersions, isOwnAddress } = circumstances
  if (found.vector === 'absent')
    return [{ reason: 'MissingExtension', message: missingPgvector(pgVersion, pgvectorVersions) }]
  if (found.vector === 'available')
    return [
      {
        reason: 'MissingExtension',
        message: 'rag needs the extension vector, which the database app does not have: run CREATE EXTENSION vector',
      },
    ]
  return placesOf(rag).flatMap((place, index) => {
    const table = found.tables[index]
    return table === undefined ? [] : (faultOfTable(place, table, isOwnAddress) ?? [])
  })
}

const searchable = new Set(['vector', 'halfvec'])

function faultOfTable(
  { pipeline, model, table: { schema, name, vectorColumn } }: Place,
  { exists, missing, vectors }: FoundReferences['tables'][number],
  isOwnAddress: boolean,
): Fault | undefined {
  const shown = schema === undefined ? name : `${schema}.${name}`
  const fault = (reason: string, message: string): Fault => ({
    reason,
    message: `rag: pipeline ${pipeline}: ${message}`,
  })
  if (!exists)
    return fault('UnknownTable', `there is no table ${shown}: create it, or name another in the pipeline's tables`)
  const [column] = missing
  if (column !== undefined) {
    const field = column === vectorColumn ? 'vector_column' : 'text_column'
    return fault('UnknownColumn', `table ${shown} has no column ${column}: add it, or name another in ${field}`)
  }
  const [vector] = vectors
  if (vector === undefined) return undefined
  if (vectors.every(({ type }) => !searchable.has(type)))
    return fault(
      'WrongColumn',
      `column ${vectorColumn} of ${shown} has the type ${vector.type}; vector_column must be a vector or halfvec`,
    )
  const dimensions = isOwnAddress ? knownDimensions[model] : undefined
  if (dimensions === undefined || vectors.some(one => one.dimensions === -1 || one.dimensions === dimensions))
    return undefined
  return fault(
    'WrongDimensions',
    `column ${vectorColumn} of ${shown} has ${vector.dimensions} dimensions, and ${model} gives ${dimensions}: change the column or the model`,
  )
}
