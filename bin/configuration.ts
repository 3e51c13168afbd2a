/** Reads a part's configuration file (YAML or JSON) and reports what is wrong with it by field. */
import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { z } from 'zod'
import { UsageError } from './command.ts'

/** @throws UsageError that names the file, the field and the rule */
export async function readConfiguration<S extends z.ZodType>(path: string, schema: S): Promise<z.output<S>> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`cannot read ${path} (${error.code})`)
  })
  let value: unknown
  try {
    value = parse(text)
  } catch {
    throw new UsageError(`${path} is not YAML`)
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new UsageError(`${path}: ${z.prettifyError(result.error).replaceAll('\n', ' ')}`)
}
