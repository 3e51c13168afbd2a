/** `make crds`: writes every CRD to crds/generated/, one YAML file a kind. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stringify } from 'yaml'
import { definitionOf } from './definition.ts'
import { declarations } from './index.ts'

/** File name to text, for every kind. */
export function generatedFiles(): Map<string, string> {
  return new Map(
    Object.values(declarations).map(declaration => {
      const definition = definitionOf(declaration)
      const text = stringify(definition, { lineWidth: 120, aliasDuplicateObjects: false })
      return [`${definition.metadata.name}.yaml`, `# Written by \`make crds\` from crds/; do not edit.\n${text}`]
    }),
  )
}

export const generatedDirectory = join(fileURLToPath(new URL('.', import.meta.url)), 'generated')

if (import.meta.main) {
  mkdirSync(generatedDirectory, { recursive: true })
  for (const [name, text] of generatedFiles()) writeFileSync(join(generatedDirectory, name), text)
}
