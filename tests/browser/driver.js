// Loaded into every page of the browser tests; tests/browser/lab.py calls these functions by name.
// They look at JupyterLab's models, which Notebook 7 has as well, rather than its markup, which changes between releases.
window.labDriver = (() => {
  "use strict";
  let panel = null; // the NotebookPanel under test
  const runs = new Map(); // cell index -> promise of its last run

  const commands = () => window.jupyterapp.commands;
  const kernel = () => panel?.sessionContext.session?.kernel;
  const cell = (index) => {
    const found = panel.content.widgets[index];
    if (!found) throw new Error(`the notebook has no cell ${index}`);
    return found;
  };
  const joined = (text) => (Array.isArray(text) ? text.join("") : text ?? "");
  const plain = (output) => {
    if (output.output_type === "stream") return joined(output.text);
    if (output.output_type === "error") return output.traceback.join("\n");
    return joined(output.data["text/plain"]);
  };
  const shown = (path) => // a shared notebook has a drive before its path
    [...window.jupyterapp.shell.widgets("main")].find((one) => one.context?.path.replace(/^RTC:/, "") === path);
  const pending = (widget) =>
    widget.node.querySelector(".jp-InputPrompt")?.textContent.includes("*") ?? false;

  const api = {
    async started() {
      await window.jupyterapp.started; // every autoStart plugin is active
    },
    async open(path, kernelName, waits) {
      // Notebook 7 opens what its address names; naming the kernel avoids the modal "Select kernel" dialog
      panel = shown(path) ?? await commands().execute("docmanager:open", {
        path, factory: "Notebook", kernel: { name: kernelName },
      });
      await panel.context.ready;
      await panel.revealed;
      if (!waits) return; // a kernel that runs a cell says nothing about itself
      await panel.sessionContext.ready;
      await kernel().info;
    },
    async close() {
      panel.context.model.dirty = false; // else it asks whether to save
      panel.close();
    },
    hasShown: (path) => shown(path) !== undefined,
    // A launcher takes the place of the last document; it must not come when the next one is open.
    isEmpty() {
      const left = [...window.jupyterapp.shell.widgets("main")];
      return panel.isDisposed && left.length === 1 && left[0] !== panel && !document.querySelector(".jp-Dialog");
    },
    isCurrent: () => window.jupyterapp.shell.currentWidget === panel,

    // A run command acts on the active cell. Select and run in one go: a focus event between
    // two calls (an input() box that closes, say) may activate another cell.
    start(index) {
      const before = cell(index).model.executionCount;
      panel.content.deselectAll();
      panel.content.activeCellIndex = index;
      runs.set(index, commands().execute("notebook:run-cell"));
      return before;
    },
    hasStarted: (index, before) =>
      pending(cell(index)) || cell(index).model.executionCount !== before,
    finished: (index) => runs.get(index), // ok or not; resolves after reply and last output
    runAll: () => commands().execute("notebook:run-all-cells"),
    // The kernel's status alone misleads: it is idle for a moment between two queued cells.
    isIdle: () => kernel()?.status === "idle" && !panel.content.widgets.some(pending),

    outputs: (index) => cell(index).model.outputs.toJSON(),
    text: (index) =>
      // eslint-disable-next-line no-control-regex
      api.outputs(index).map(plain).join("\n").replace(/\x1b\[[0-9;]*m/g, ""),
    hasText: (index, needle) => api.text(index).includes(needle),
    setSource: (index, source) => cell(index).model.sharedModel.setSource(source),

    async execute(code) {
      let text = "";
      const future = kernel().requestExecute({ code, store_history: false });
      future.onIOPub = ({ content, header }) => {
        if (header.msg_type === "stream") text += content.text;
        if (header.msg_type === "error") text += content.traceback.join("\n");
      };
      const reply = await future.done;
      return { text, ok: reply.content.status === "ok" };
    },
    interrupt: () => commands().execute("notebook:interrupt-kernel"),
    async restart() {
      await panel.sessionContext.restartKernel();
      await kernel().requestKernelInfo();
    },
    // Private names of JupyterLab's kernel connection; absent ones count as "nothing to wait for".
    commsReady() {
      const { _comms: comms, _commsOverSubshells: mode, supportsSubshells } = kernel();
      if (!comms || !supportsSubshells || mode === "disabled") return true;
      return [...comms.values()].every((comm) => comm.subshellId);
    },

    async save() {
      await commands().execute("docmanager:save");
    },
    isSaved: () => !panel.context.model.dirty,
    async setTheme(name) {
      await commands().execute("apputils:change-theme", { theme: name });
    },
    hasTheme: (name) =>
      document.body.dataset.jpThemeName === name && !document.querySelector("#jupyterlab-splash"),
  };

  // A promise in a page has no time limit of its own.
  async function call(name, args, milliseconds) {
    let timer;
    const late = new Promise((resolve) => {
      timer = setTimeout(() => resolve({ late: true }), milliseconds);
    });
    const work = Promise.resolve(api[name](...args)).then((value) => ({ value }));
    try {
      return await Promise.race([work, late]);
    } finally {
      clearTimeout(timer);
    }
  }
  return { call, check: (name, args) => Boolean(api[name](...args)) };
})();
