/** `espalier open`: opens the console or a database's page in a browser, and prints the URL. */
import { act, type ClientCommand, createCommand, databaseArgument } from '../arguments.ts'
import { openInBrowser } from '../open.ts'
import { findProject } from '../project.ts'
import { chosenDatabase } from '../session.ts'

const command: ClientCommand = run =>
  act<{ print?: boolean }>(
    run,
    databaseArgument(
      createCommand(run, 'open', "Opens the console in a browser. With a database, opens the database's page."),
    ).option('--print', "only prints the page's URL"),
    async (session, [name], { print }) => {
      const { io, printer } = session
      const isChosen = name !== undefined || (await findProject(io.directory)) !== undefined
      // The console shows branches on the page of their database.
      const path = isChosen
        ? `/console/databases/${encodeURIComponent((await chosenDatabase(session, name)).database.id)}`
        : '/console/'
      const url = new URL(path, (await session.api()).url).href
      const isOpened = !print && openInBrowser(io.environment, url)
      printer.done(url, url, { url })
      if (!isOpened && !print) printer.note('No browser was found: open the address above')
    },
  )
export default command
