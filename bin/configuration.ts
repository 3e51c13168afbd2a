/** Reads a component's configuration file (YAML or JSON) and reports errors by field. */
import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { z } from 'zod'
import { isRecord } from '../values/record.ts'
import { UsageError } from './command.ts'

/** Secrets from separate files, by section and field. They override the configuration file. */
type Additions = Record<string, Record<string, string>>

/** @throws UsageError that names the file, the field and the rule */
export async function readConfiguration<S extends z.ZodType>(
  path: string,
  schema: S,
  additions: Additions = {},
): Promise<z.output<S>> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`cannot read ${path} (${error.code})`)
  })
  let value: unknown
  try {
    value = parse(text)
  } catch {
    throw new UsageError(`${path} is not YAML`)
  }
  const result = schema.safeParse(withAdditions(value, additions))
  if (result.success) return result.data
  throw new UsageError(`${path}: ${z.prettifyError(result.error).replaceAll('\n', ' ')}`)
}

function withAdditions(value: unknown, additions: Additions): unknown {
  if (!isRecord(value)) return value
  const sections = Object.entries(additions).map(([section, fields]) => {
    const configured = value[section]
    return [section, isRecord(configured) ? { ...configured, ...fields } : fields]
  })
  return { ...value, ...Object.fromEntries(sections) }
}
