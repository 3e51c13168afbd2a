/** The database objects that the services' configurations name. Also which of them are missing or wrong. Pure. */
import { type ConfigurationFault, missingPgvector, type PgVersion, type ServiceConfig } from '../../crds/index.ts'
import { type Finding, no, yes } from '../objects/conditions.ts'
import { digestOf } from '../objects/up-to-date.ts'
import type { FoundReferences, References, TableReference } from '../postgres/administrator.ts'

/** The maximum number of tables that are checked. */
const mostTables = 200
const shownFaults = 5

type RagConfig = NonNullable<ServiceConfig['rag']>
type TableUse = { pipeline: string; model: string; table: TableReference }

function tableOf({
  table,
  textColumn,
  vectorColumn,
}: RagConfig['pipelines'][number]['tables'][number]): TableReference {
  const [first = '', ...rest] = table.split('.')
  const named = rest.length === 0 ? { schema: undefined, name: first } : { schema: first, name: rest.join('.') }
  return { ...named, columns: [...new Set([textColumn, vectorColumn])], vectorColumn }
}

const tableUses = ({ pipelines, embeddingLlm }: RagConfig): TableUse[] =>
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

/** Undefined if no service names an object. */
export function referencesOf(configs: readonly ServiceConfig[]): References | undefined {
  const { rest, rag } = partsOf(configs)
  if (rest === undefined && rag === undefined) return undefined
  const named = {
    schemas: rest === undefined ? [] : schemasOf(rest),
    tables: rag === undefined ? [] : tableUses(rag).map(({ table }) => table),
    needsVector: rag !== undefined,
  }
  return { ...named, digest: digestOf(named) }
}

/** The dimensions of OpenAI's embedding models, if the requests go to OpenAI's own address. */
const knownDimensions: Readonly<Record<string, number>> = {
  'text-embedding-3-small': 1536,
  'text-embedding-3-large': 3072,
  'text-embedding-ada-002': 1536,
}

/** `message`: does not contain the service's type. */
type Fault = { type: ServiceConfig['serviceType']; reason: string; message: string }

type Circumstances = {
  /** Violated rules. They do not depend on the database. */
  faults: readonly ConfigurationFault[]
  pgVersion: PgVersion
  /** The major versions whose images are known to have pgvector. */
  pgvectorVersions: readonly PgVersion[]
  /** Whether requests for embeddings go to the provider's public address. */
  isOwnAddress: boolean
}

/** `found`: undefined if the database was not queried. */
export function configurationFaults(
  configs: readonly ServiceConfig[],
  found: FoundReferences | undefined,
  circumstances: Circumstances,
): Fault[] {
  const { rest, rag } = partsOf(configs)
  return [
    ...circumstances.faults.map(brokenRule),
    ...(rest === undefined || found === undefined ? [] : found.missingSchemas.map(unknownSchema)),
    ...(rag === undefined || found === undefined ? [] : faultsOfRag(rag, found, circumstances)),
  ]
}

/** The condition ServicesConfigured. Undefined if there is no fault and the database was not queried. */
export function configuredFinding(faults: readonly Fault[], isRequested: boolean): Finding | undefined {
  const [first] = faults
  if (first === undefined)
    return isRequested ? yes('Found', 'the schemas, tables and columns that services name exist') : undefined
  return no(first.reason, listed(faults.map(named)))
}

/** The faults of one service, without its type. Undefined if there are none. */
export function faultsOfService(faults: readonly Fault[], type: ServiceConfig['serviceType']): string | undefined {
  const own = faults.filter(fault => fault.type === type)
  return own.length === 0 ? undefined : listed(own.map(({ message }) => message))
}

const named = ({ type, message }: Fault): string => (message.startsWith(type) ? message : `${type}: ${message}`)

function listed(messages: readonly string[]): string {
  const hidden = messages.length - shownFaults
  const more = hidden > 0 ? `; and ${hidden} more` : ''
  return `${messages.slice(0, shownFaults).join('; ')}${more}`
}

const brokenRule = ({ type, field, rule }: ConfigurationFault): Fault => ({
  type,
  reason: 'WrongConfiguration',
  message: `${field} ${rule}`,
})

const unknownSchema = (name: string): Fault => ({
  type: 'rest',
  reason: 'UnknownSchema',
  message: `db_schemas names the schema ${name}, which does not exist: create it, or remove it from db_schemas`,
})

function faultsOfRag(rag: RagConfig, found: FoundReferences, circumstances: Circumstances): Fault[] {
  const { pgVersion, pgvectorVersions, isOwnAddress } = circumstances
  if (found.vector === 'absent')
    return [{ type: 'rag', reason: 'MissingExtension', message: missingPgvector(pgVersion, pgvectorVersions) }]
  if (found.vector === 'available')
    return [
      {
        type: 'rag',
        reason: 'MissingExtension',
        message: 'rag needs the extension vector, which the database app does not have: run CREATE EXTENSION vector',
      },
    ]
  return tableUses(rag).flatMap((use, index) => {
    const table = found.tables[index]
    return table === undefined ? [] : (faultOfTable(use, table, isOwnAddress) ?? [])
  })
}

const searchable = new Set(['vector', 'halfvec'])

function faultOfTable(
  { pipeline, model, table: { schema, name, vectorColumn } }: TableUse,
  { exists, missing, vectors }: FoundReferences['tables'][number],
  isOwnAddress: boolean,
): Fault | undefined {
  const shown = schema === undefined ? name : `${schema}.${name}`
  const fault = (reason: string, message: string): Fault => ({
    ...({ type: 'rag', reason } as const),
    message: `pipeline ${pipeline}: ${message}`,
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
    `column ${vectorColumn} of ${shown} has ${vector.dimensions} dimensions, and ${model} returns ${dimensions}: change the column or the model`,
  )
}
