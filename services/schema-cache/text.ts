/** Writes the schema cache as JSON, for people who debug a service. Maps become objects. */
import { setImmediate } from 'node:timers/promises'
import type { SchemaCache } from './types.ts'

/** Yields the event loop after this many tables or functions. */
const valuesAtOnce = 500

const plain = (_: string, value: unknown): unknown => {
  if (value instanceof Map) return Object.fromEntries(value)
  return value instanceof Set ? [...value] : value
}

/** Writes objects key by key, and yields the event loop in between. */
class Writer {
  #written = 0

  async value(value: unknown): Promise<string> {
    if (++this.#written % valuesAtOnce === 0) await setImmediate()
    return JSON.stringify(value, plain) ?? 'null'
  }

  async object<T>(entries: Iterable<readonly [string, T]>, write: (value: T) => Promise<string>): Promise<string> {
    const members: string[] = []
    for (const [name, value] of entries) members.push(`${JSON.stringify(name)}:${await write(value)}`)
    return `{${members.join(',')}}`
  }
}

/** The relations or functions, by schema and name. */
type Named = ReadonlyMap<string, ReadonlyMap<string, unknown>>

export function schemaCacheText(cache: SchemaCache): Promise<string> {
  const writer = new Writer()
  const bySchema = (named: Named) => writer.object(named, schema => writer.object(schema, value => writer.value(value)))
  const { tables, relationships, routines, computedColumns, representations, mediaHandlers } = cache
  const parts: [string, () => Promise<string>][] = [
    ['schemas', () => writer.value(cache.schemaDescriptions)],
    ['tables', () => bySchema(tables)],
    ['relationships', () => bySchema(relationships)],
    ['routines', () => bySchema(routines)],
    ['computedColumns', () => bySchema(computedColumns)],
    ['representations', () => writer.value([...representations.values()])],
    ['mediaHandlers', () => writer.value(mediaHandlers)],
    ['timeZones', () => writer.value(cache.timeZones)],
  ]
  return writer.object(parts, write => write())
}
