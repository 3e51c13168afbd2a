/** Edits the results of a group's last run. Stryker reads them to skip unchanged mutants. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { z } from 'zod'

const results = z.looseObject({
  files: z.record(
    z.string(),
    z.looseObject({ mutants: z.array(z.looseObject({ status: z.string(), static: z.boolean().optional() })) }),
  ),
})

/**
 * Removes survivors that run when a module is loaded. Stryker does not know the tests that cover them, so it would not
 * run them again for a new test.
 */
export function forgetSurvivorsOfLoading(path: string): void {
  if (!existsSync(path)) return
  const { files, ...rest } = results.parse(JSON.parse(readFileSync(path, 'utf8')))
  const kept = Object.entries(files).map(([name, file]) => [
    name,
    { ...file, mutants: file.mutants.filter(mutant => !mutant.static || mutant.status !== 'Survived') },
  ])
  writeFileSync(path, JSON.stringify({ ...rest, files: Object.fromEntries(kept) }))
}
