/** Which tools, resources and prompts are switched off: `builtins.tools.<name>: false`, or `ESPALIER_BUILTIN_TOOL_<NAME>=false`. */
import { truth } from '../../configuration/values.ts'
import type { SettingsReader } from './reader.ts'

const kinds = [
  { table: 'tools', variable: 'BUILTIN_TOOL_', separator: '_' },
  { table: 'resources', variable: 'BUILTIN_RESOURCE_', separator: '_' },
  // Prompts have hyphens in their names, which variables cannot have.
  { table: 'prompts', variable: 'BUILTIN_PROMPT_', separator: '-' },
] as const

const namePattern = /^[a-z][a-z0-9_-]{0,99}$/

export function readDisabled(reader: SettingsReader): Set<string> {
  const disabled = new Set<string>()
  for (const { table, variable, separator } of kinds) {
    const prefix = `ESPALIER_${variable}`
    const inEnvironment = Object.keys(reader.environment).flatMap(name =>
      name.startsWith(prefix) ? [name.slice(prefix.length).toLowerCase().replaceAll('_', separator)] : [],
    )
    for (const name of new Set([...reader.namesBelow(`builtins.${table}`), ...inEnvironment])) {
      if (!namePattern.test(name)) continue
      const variables = [`${variable}${name.toUpperCase().replaceAll('-', '_')}`]
      if (reader.take(`builtins.${table}.${name}`, truth(), { variables }) === false) disabled.add(name)
    }
  }
  return disabled
}
